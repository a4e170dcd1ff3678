"""What graph passes share: reading and rewriting Relax."""
