"""ONNX files with layers in bytes, as ONNX files."""
