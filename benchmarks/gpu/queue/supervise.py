"""Start the process that runs the queue, again where a piece ends it, and keep its log."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

LOG = "log.txt"
LEAST = 5.0
"""Seconds that must be left to start a process."""


def supervise(arguments: list[str], out: Path, minutes: float) -> int:
    """Run the queue until a process of it ends by itself; return its exit status.

    A process that a signal ends (a library that crashes, memory that runs out) costs the piece that
    it was at: the next one goes on behind it.
    """
    session, deadline = time.strftime("%Y-%m-%d %H:%M:%S"), time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOG).open("a", encoding="utf-8") as log:
        while True:
            left = (deadline - time.monotonic()) / 60
            status = _logged(going_on(arguments, left, session), log)
            if status >= 0 or deadline - time.monotonic() < LEAST:
                return status if status >= 0 else 3
            _tell(f"signal {-status} ended the process: on in a fresh one\n", log)


def going_on(arguments: list[str], minutes: float, session: str) -> list[str]:
    """Return the arguments of a process that goes on with ``session`` for so many minutes."""
    kept, value = [], False
    for argument in arguments:
        option = argument in ("--minutes", "--session")
        if not value and not option:
            kept.append(argument)
        value = option
    return [*kept, "--minutes", f"{minutes:.3f}", "--session", session]


def _logged(arguments: list[str], log: TextIO) -> int:
    """Run a process whose messages go to the log, too."""
    command = [sys.executable, "-m", "benchmarks.gpu.queue", *arguments]
    options = {"stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    with subprocess.Popen(command, **options) as process:
        reader = threading.Thread(target=_copied, args=(process.stderr, log))
        reader.start()
        try:
            return process.wait()
        finally:
            # What it started outlives it, and would keep the pipe open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            reader.join()


def _copied(lines: Iterable[str], log: TextIO) -> None:
    for line in lines:
        _tell(line, log)


def _tell(line: str, log: TextIO) -> None:
    print(line, end="", file=sys.stderr, flush=True)
    print(line, end="", file=log, flush=True)
