"""Benchmarks on NVIDIA GPUs: ``benchmarks/gpu/run.sh`` runs all parts, ``--build`` needs no GPU."""
