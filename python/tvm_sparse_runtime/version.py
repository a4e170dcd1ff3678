"""The one place that says which release this is, of the runtime and of the compiler."""

__version__ = "0.1.0"

TVM = "0.27.0.post1"
"""The release of apache-tvm that programs are made for and run on."""
