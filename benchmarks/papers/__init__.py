"""Scripts that reproduce tables and figures of the papers, one a paper's result."""
