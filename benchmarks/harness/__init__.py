"""What benchmark scripts share: environment, timing, results on disk."""
