"""What is computed on NVIDIA GPUs: operators written for thread blocks, warps and lanes."""
