"""The layers and networks that benchmarks time."""
