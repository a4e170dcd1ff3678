"""The ``tvm-sparse`` command line: one command a file, results on stdout, the rest on stderr."""

from __future__ import annotations

from tvm_sparse.cli.app import app, main

__all__ = ["app", "main"]
