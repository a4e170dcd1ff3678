"""Pruning a trained model without training: second-order scores, remaining weights updated."""
