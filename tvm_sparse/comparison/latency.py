"""Latency of several programs in one run, in turns, so that noise meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

WARM_UP = 3


@dataclass(frozen=True)
class Latency:
    """Microseconds of one call: median and 99th percentile of ``calls`` calls."""

    median_us: float
    p99_us: float
    calls: int


def race(
    programs: Mapping[str, Callable[[], object]],
    rounds: int = 20,
    calls: int = 20,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, Latency]:
    """Time every program ``rounds * calls`` times, in turns of ``calls``.

    Parameters
    ----------
    programs
        By name; each is called without arguments, untimed at first in every turn so that its
        weights are in the cache again.
    progress
        Told after each round, as ``progress("timing", done, rounds)``.
    """
    samples: dict[str, list[int]] = {name: [] for name in programs}
    for number in range(rounds):
        for name, program in programs.items():
            for _ in range(WARM_UP):
                program()
            for _ in range(calls):
                start = time.perf_counter_ns()
                program()
                samples[name].append(time.perf_counter_ns() - start)
        if progress is not None:
            progress("timing", number + 1, rounds)
    return {name: _summary(np.array(taken) / 1e3) for name, taken in samples.items()}


def calls_a_turn(program: Callable[[], object]) -> int:
    """Return how often to call a program in one turn: once if a call takes more than 50 ms."""
    start = time.perf_counter_ns()
    program()
    return 1 if time.perf_counter_ns() - start > 50e6 else 20


def _summary(microseconds: np.ndarray) -> Latency:
    median, high = np.percentile(microseconds, [50, 99])
    return Latency(float(median), float(high), len(microseconds))
