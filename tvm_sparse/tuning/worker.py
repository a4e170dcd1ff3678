"""A process that builds or measures for the tuner: it knows TVM, but neither torch nor the model.

Started by :mod:`tvm_sparse.tuning.pool` as ``python -m tvm_sparse.tuning.worker FD``; it answers
calls on that file descriptor until the other end closes, however the parent ends.
"""

from __future__ import annotations

import os
import resource
import sys
from multiprocessing.connection import Connection
from pathlib import Path
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
        connection.send((value, error, peak_memory()))


def peak_memory() -> int:
    """Return the most memory this process has held, in bytes.

    Linux's ``ru_maxrss`` begins with what the parent held when it started us: gigabytes, where it
    has a large model. Its own count does not.
    """
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


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
