"""What processors have: vectors, registers, caches, lookups, and what these cost."""
