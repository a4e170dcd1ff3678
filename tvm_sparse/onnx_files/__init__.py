"""ONNX files that stay what they are but for some weights: read, looked into, run, written."""
