"""Other runtimes beside ours: the same model, the same inputs, verified, then timed in turns."""
