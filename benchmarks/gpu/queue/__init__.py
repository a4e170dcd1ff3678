"""Everything that a GPU must decide, as one queue: ``benchmarks/gpu/run.sh --queue``."""
