"""First: one form of each operator, one layout, constants folded."""
