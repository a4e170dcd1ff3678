"""Everything that multiplies no weights: pooling, norms, softmax, sorting, moving elements."""
