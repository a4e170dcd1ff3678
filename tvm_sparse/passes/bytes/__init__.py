"""Third: quantised networks compute with bytes."""
