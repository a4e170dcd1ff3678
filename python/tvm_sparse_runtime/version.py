"""The one place that says which release this is, of the runtime and of the compiler."""

__version__ = "0.1.0"
