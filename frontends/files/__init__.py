"""Models in files: checkpoints, safetensors, ``.pt2``; no code of theirs runs."""
