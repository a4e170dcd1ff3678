"""Distillation: a pruned network learns what its dense original gives, from inputs alone."""
