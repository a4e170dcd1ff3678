"""Speed, measured: one script a question, JSON in ``results/``, pages generated from it."""
