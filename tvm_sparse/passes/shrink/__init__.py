"""Second: what pruning made superfluous leaves the network."""
