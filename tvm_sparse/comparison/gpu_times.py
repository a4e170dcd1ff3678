"""Times of programs on a GPU without their host code: graphs, or behind a sleep that hides it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_sparse.comparison.gpu_device import Device, Program

SECONDS = 0.25
"""Time that a slow program's calls take together, at most..."""
FEWEST = 10
"""...but so many calls at least."""

SLEEP, LONGEST = 50e-6, 20e-3
"""The stream sleeps before each call so long at first, and so long at most."""


@dataclass(frozen=True)
class OwnGraphs:
    """A program that replays graphs of its own, as ``torch.compile`` does: none may hold it."""

    program: Program

    def __call__(self) -> Any:
        """Run the program."""
        return self.program()


class Timed:
    """A program whose calls are timed one by one."""

    def __init__(self, program: Program, flush: str, device: Device) -> None:
        self.device, self.flush, self.sleep = device, flush, SLEEP
        self.times: list[float] = []
        self.hosts: list[float] = []
        self.late: list[float] = []
        """Times that hold some of the host's, because the sleep was over too soon."""
        program()
        device.wait()
        self.program, self.how, self.refusal = program, "sleep", "has graphs of its own"
        if isinstance(program, OwnGraphs):
            return
        try:
            self.program, self.how, self.refusal = device.captured(program), "graph", ""
        # Whatever a program does that no graph can hold; it is then called behind a sleep.
        except Exception as error:
            device.wait()
            self.refusal = reason(error)

    def call(self) -> None:
        """Call once; what the host was too slow for is called again, after a longer sleep."""
        while True:
            self.device.flush(self.flush)
            before = self.device.event()
            launching = self.device.now()
            self.device.sleep(self.sleep)
            begin = self.device.event()
            self.program()
            end = self.device.event()
            host = self.device.now() - launching
            self.device.wait()
            seconds = self.device.between(begin, end)
            # The sleep counts clocks, whose rate varies: how long it was is measured, too.
            if host < self.device.between(before, begin):
                self.times.append(seconds)
                self.hosts.append(host)
                self.sleep = max(SLEEP, min(self.sleep, 4 * host))
                return
            if self.sleep >= LONGEST:
                self.late.append(seconds)
                return
            self.sleep = min(2 * host, LONGEST)

    def result(self) -> dict[str, Any]:
        """Return the row's entry: medians in microseconds, and how they came about."""
        times = self.times or self.late
        found = {
            "median_us": float(np.median(times)) * 1e6,
            "p99_us": float(np.percentile(times, 99)) * 1e6,
            "calls": len(times),
            "how": self.how,
        }
        if self.hosts:
            found["host_us"] = float(np.median(self.hosts)) * 1e6
        if self.refusal:
            found["not_captured"] = self.refusal
        if not self.times:
            found["contaminated"] = (
                f"the host is not done before it begins, however long the stream sleeps "
                f"(up to {LONGEST * 1e3:g} ms)"
            )
        return found


def gpu_times(
    programs: Mapping[str, Program], repeats: int, flush: str, on: Device
) -> dict[str, dict[str, Any]]:
    """Return ``median_us``, ``p99_us``, ``calls``, ``how`` and ``host_us`` of each program.

    Turn by turn, so that clocks and temperature meet all of them alike. A time is that between two
    events on the GPU. It holds nothing of the host's: the stream sleeps before the first event
    until the host has launched what follows, which is checked call by call; graphs are launched
    whole. Programs of which ``repeats`` calls would take more than :data:`SECONDS` are called less
    often.
    """
    timed = {name: Timed(program, flush, on) for name, program in programs.items()}
    calls = {}
    for name, one in timed.items():
        one.call()
        calls[name] = calls_of((one.times or one.late)[0], repeats)
        one.times.clear()
        one.hosts.clear()
        one.late.clear()
    for turn in range(max(calls.values(), default=0)):
        for name, one in timed.items():
            if turn < calls[name]:
                one.call()
    return {name: one.result() for name, one in timed.items()}


def calls_of(seconds: float, repeats: int) -> int:
    """Return how often a program that takes ``seconds`` is called, ``repeats`` times at most."""
    return min(repeats, max(FEWEST, int(SECONDS / max(seconds, 1e-9))))


def reason(error: Exception) -> str:
    """Return an exception as one short line."""
    return f"{type(error).__name__}: {str(error)[:160]}".splitlines()[0]
