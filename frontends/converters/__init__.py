"""PyTorch operators as Relax: TVM's converters corrected, and our own."""
