"""How operators run on NVIDIA GPUs: one rule a file."""
