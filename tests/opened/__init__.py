"""Random networks with open extents: their parts, the memory that they run in, and the tests."""
