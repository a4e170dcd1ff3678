"""``python -m tvm_sparse_runtime.config``: where the parts for C and C++ lie."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from .errors import SparseRuntimeError

_PLACES = {
    "cmakedir": "lib/cmake/tvm_sparse_runtime",
    "pkgconfigdir": "lib/pkgconfig",
    "includedir": "include",
    "libdir": "lib",
    "program": "bin/tvm_sparse_run",
}
_LIBRARY = "tvm_sparse_runtime/lib/libtvm_sparse_runtime.so"


def place(name: str) -> Path:
    """Return the path of a part for C and C++.

    Parameters
    ----------
    name
        ``cmakedir`` (for ``CMAKE_PREFIX_PATH`` or ``tvm_sparse_runtime_DIR``), ``pkgconfigdir``,
        ``includedir``, ``libdir`` or ``program``.

    Raises
    ------
    SparseRuntimeError
        If the distribution was installed without them.
    """
    return library().parents[1] / _PLACES[name]


def library() -> Path:
    """Return the path of the C library; raises as :func:`place` does."""
    distribution = importlib.metadata.distribution("tvm-sparse-runtime")
    found = Path(str(distribution.locate_file(_LIBRARY)))
    if not found.is_file():
        raise SparseRuntimeError(
            str(found), "not found", "an installed wheel", "pip install tvm-sparse-runtime"
        )
    return found


def run_program() -> None:
    """Become the program ``tvm_sparse_run``, which needs no Python."""
    program = str(place("program"))
    os.execv(program, [program, *sys.argv[1:]])


def main(argv: Sequence[str] | None = None) -> None:
    """Print the paths that the options ask for, one a line."""
    parser = argparse.ArgumentParser(prog="python -m tvm_sparse_runtime.config")
    for name, path in _PLACES.items():
        parser.add_argument(f"--{name}", dest="names", action="append_const", const=name, help=path)
    for name in parser.parse_args(argv).names or _PLACES:
        print(place(name))


if __name__ == "__main__":
    main()
