"""Hand-written kernels for Hopper: what designs are worth, and the bound for generated ones.

Not part of the compiler. ``README.md`` beside this file says how they work.
"""
