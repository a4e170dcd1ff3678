"""DEPrune: depthwise separable convolutions pruned for parallel hardware (NeurIPS 2024)."""
