"""Pages under docs/performance, made from ``results/`` alone."""
