"""Factors of matrices and special functions."""
