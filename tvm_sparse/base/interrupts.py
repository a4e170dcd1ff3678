"""Ctrl-C while modules are imported: it waits until they are whole.

A module that is left half-way cannot be imported again: TVM and PyTorch register what they have
once in a process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_IMPORTING = "<frozen importlib._bootstrap>"
_AGAIN = 0.05
"""Seconds until an interrupt that came during an import is looked at again."""


@contextlib.contextmanager
def whole_imports() -> Iterator[None]:
    """Let imports inside of the block end before an interrupt is raised.

    It leaves handlers that are not Python's own alone, and threads that get no signals.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _later)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _later(number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        timer = threading.Timer(_AGAIN, os.kill, (os.getpid(), signal.SIGINT))
        timer.daemon = True
        timer.start()
    else:
        signal.default_int_handler(number, frame)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTING:
            return True
        frame = frame.f_back
    return False
