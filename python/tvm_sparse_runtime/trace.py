"""When each kernel of a call ran, as Perfetto and Chrome's tracing read it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from . import engine
from .errors import SparseRuntimeError
from .session import Session

_STEPPED = "stepped"
"""The function with the steps of ``main`` that instruments see; absent where they see those."""


def trace(session: Session, values: Sequence[Any], calls: int = 3) -> dict[str, Any]:
    """Run a program ``calls`` times, after one call that warms up, and return when what ran.

    The timing of a step takes about a microsecond itself, so calls are longer than untraced ones.

    Parameters
    ----------
    session
        A loaded library, or another session, for this CPU. Its own calls are not traced.
    values
        One tensor for each input, as for :meth:`.Session.run`.
    calls
        How many calls are traced.

    Returns
    -------
    trace
        An object of the Trace Event Format, to be written as JSON: complete events with their
        begin and length in microseconds. Their categories are ``call``, ``kernel``, and
        ``builtin`` for steps between kernels, such as allocations.

    Raises
    ------
    SparseRuntimeError
        The program runs on a GPU, or was made of a virtual machine alone.
    TensorError
        As :meth:`.Session.run`.
    """
    if session.device != "cpu":
        raise SparseRuntimeError(
            "trace",
            "kernels of a GPU run in a CUDA graph, inside of which nothing is timed here",
            "a program for a CPU",
            "NVIDIA's nsys times each kernel",
        )
    steps = _Steps()
    traced = session.clone()
    traced._begin(_Stepped(session, steps))
    traced.run(*values)
    steps.events.clear()
    for number in range(calls):
        begin = time.perf_counter_ns()
        traced.run(*values)
        steps.add(f"call {number}", "call", begin)
    first = min((event["ts"] for event in steps.events), default=0.0)
    events = [{**event, "ts": event["ts"] - first} for event in steps.events]
    return {"traceEvents": sorted(events, key=lambda e: (e["ts"], -e["dur"]))}


class _Steps:
    """What a virtual machine calls before and after each step."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._begun: list[int] = []

    def __call__(self, _function: Any, name: str, before: bool, _result: Any, *_: Any) -> None:
        if before:
            self._begun.append(time.perf_counter_ns())
        else:
            kind = "builtin" if name.startswith("vm.builtin.") else "kernel"
            self.add(name.removeprefix("vm.builtin."), kind, self._begun.pop())

    def add(self, name: str, category: str, begin: int) -> None:
        """Add an event that ends now."""
        length = time.perf_counter_ns() - begin
        event = {"name": name, "cat": category, "ph": "X", "pid": 1, "tid": 1}
        self.events.append({**event, "ts": begin / 1000, "dur": length / 1000})


class _Stepped:
    """A new virtual machine of a session's program, whose ``main`` is the one that is seen."""

    def __init__(self, session: Session, steps: _Steps) -> None:
        if session._restart is None:
            raise SparseRuntimeError("trace", "made of one virtual machine", "a loaded library")
        self._vm = session._restart()
        self._vm["set_instrument"](engine.ffi().convert(steps))

    def __getitem__(self, name: str) -> Any:
        return self._vm[_STEPPED if self._vm.implements_function(_STEPPED) else name]
