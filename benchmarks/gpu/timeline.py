"""A GPU's stream and its host as two clocks: what is launched begins when both are ready for it."""

from __future__ import annotations

from benchmarks.gpu.device import Program

FLUSH = {"clean": 120e-6, "dirty": 60e-6, "none": 0.0}
"""Seconds that a flush takes on the stream; an H200 writes 256 MB in about 60 us."""

CALL = 2e-6
"""Seconds of the host for an event, a flush, a sleep or the replay of a graph."""


class Timeline:
    """A ``device.Device`` whose time is counted instead of measured.

    The host runs ahead of the stream, as with a GPU; :meth:`launch` is how programs take time.
    """

    def __init__(self) -> None:
        self.host = self.stream = 0.0
        self._kept: list[float] | None = None

    def launch(self, seconds: float, host: float = CALL) -> None:
        """Spend ``host`` seconds to launch a kernel that takes ``seconds`` on the stream."""
        self.host += host
        if self._kept is not None:
            self._kept.append(seconds)
        else:
            self.stream = max(self.stream, self.host) + seconds

    def flush(self, kind: str) -> None:
        """Let :data:`FLUSH` pass on the stream."""
        self.launch(FLUSH[kind])

    def sleep(self, seconds: float) -> None:
        """Let ``seconds`` pass on the stream."""
        self.launch(seconds)

    def event(self) -> float:
        """Return the end of the stream."""
        self.launch(0.0)
        return self.stream

    def between(self, begin: float, end: float) -> float:
        """Return the seconds between two events."""
        return end - begin

    def now(self) -> float:
        """Return the host's clock."""
        return self.host

    def wait(self) -> None:
        """Let the host wait for the stream."""
        self.host = max(self.host, self.stream)

    def captured(self, program: Program) -> Program:
        """Return a program that spends what ``program`` launches, at once."""
        self._kept = []
        try:
            program()
        finally:
            kept, self._kept = self._kept, None
        return lambda: self.launch(sum(kept))
