"""What every room may use: options, names, numerics, targets, files, terminals."""
