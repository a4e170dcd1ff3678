"""The whole way: compile, tune, new weights, several CPUs; and the library that comes out."""
