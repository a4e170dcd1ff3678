"""Linear layers, convolutions, products and recurrences, dense and sparse: one format a file."""
