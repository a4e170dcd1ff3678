"""A process that builds or measures for the tuner: it knows TVM, but neither torch nor the model.

Started by :mod:`tvm_sparse.tuning.pool` as ``python -m tvm_sparse.tuning.worker FD``; it answers
calls on that file descriptor until the other end closes, however the parent ends.
"""

from __future__ import annotations

import os
import resource
import sys
from multiprocessing.connection import Connection
from typing import Any

READY = "ready"
KIBIBYTE = 1 if sys.platform == "darwin" else 1024
"""Unit of ``ru_maxrss`` in bytes."""


def serve(connection: Connection) -> None:
    """Answer ``(function, arguments)`` with ``(value, error, peak memory in bytes)``."""
    connection.send(READY)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        value: Any = None
        error = None
        try:
            value = function(*arguments)
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE
        connection.send((value, error, peak))


def main() -> None:
    """Close the door to torch, import TVM, serve."""
    descriptor = int(sys.argv[1])
    # tvm_ffi imports torch wherever it is installed: seconds and 250 MB for nothing.
    sys.modules["torch"] = None  # type: ignore[assignment]
    # What prints must not get in the way of anything: there is no one to read it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    import tvm  # noqa: F401

    serve(Connection(descriptor))


if __name__ == "__main__":
    main()
