"""PyTorch modules: exported, their layers read, wrappers of pruning libraries taken off."""
