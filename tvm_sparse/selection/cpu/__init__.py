"""What CPUs offer for a weight, and what it would cost."""
