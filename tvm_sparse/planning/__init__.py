"""Plans: which pattern and level each layer gets, from a budget of time, bytes or drop."""
