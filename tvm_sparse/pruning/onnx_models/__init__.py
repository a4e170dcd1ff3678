"""ONNX files as networks whose layers can be pruned, and back."""
