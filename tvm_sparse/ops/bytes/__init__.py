"""Between floats and narrow numbers: quantisation, tables of bytes, bfloat16."""
