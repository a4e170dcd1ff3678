"""A program of PyTorch, rewritten until TVM's importer takes it, then imported."""
