"""Trained modules, one file a kind of input."""
