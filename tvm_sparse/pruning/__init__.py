"""Pruning PyTorch models by the papers' methods, with masks that survive training."""
