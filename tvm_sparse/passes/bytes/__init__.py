"""Third: quantized networks compute with bytes."""
