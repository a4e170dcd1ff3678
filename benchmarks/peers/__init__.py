"""The other libraries and runtimes that benchmarks compare with."""
