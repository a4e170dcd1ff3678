"""Last: weights leave the code, functions are shared, the program is assembled."""
