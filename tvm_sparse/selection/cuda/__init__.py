"""What NVIDIA GPUs offer for a weight, and what it would cost."""
