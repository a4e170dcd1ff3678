"""Relax to Relax, one pass a file; pipeline.py is the table of contents."""
