"""Interfaces of other sparse runtimes, so that their users' code runs as it is."""
