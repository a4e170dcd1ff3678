"""Between floats and narrow numbers: quantization, tables of bytes, bfloat16."""
