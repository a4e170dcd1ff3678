"""Ctrl-C as a request to stop: the step in progress ends, a second Ctrl-C ends it at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Stop:
    """Whether a stop was asked for."""

    def __init__(self) -> None:
        self.asked = False

    def __bool__(self) -> bool:
        return self.asked


@contextlib.contextmanager
def stop_on_interrupt() -> Iterator[Stop]:
    """Yield a :class:`Stop` that the first SIGINT sets; the second raises ``KeyboardInterrupt``.

    An exception in the middle of TVM's search would have to pass through C++. Outside of the main
    thread, which alone gets signals, nothing changes.
    """
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def handle(number: int, frame: FrameType | None) -> None:
        if stop:
            signal.default_int_handler(number, frame)
        stop.asked = True

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)
