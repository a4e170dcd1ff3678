"""Compile pruned PyTorch models with Apache TVM into fast, deployable libraries."""
