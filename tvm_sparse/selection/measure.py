"""Time operators on this machine, side by side, with the data that they will run on."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from tvm_sparse.base.memory import argument_of
from tvm_sparse.schedules.build import build_scheduled, scheduled
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.times import Times, key_of
from tvm_sparse_runtime import engine

ROUNDS = 5

TURN = 0.002
"""Seconds that an operator runs in its turn, at least once."""

PIECE = 0.0003
"""Seconds of a turn that are timed apart. A system shares a core in slices of 3 or 4 ms: turns that
are timed whole may meet another program in every one, and operators next to them in none."""


@dataclass(frozen=True)
class Data:
    """What an operator is timed on: input, packed arrays, shape and type of the output."""

    x: np.ndarray
    arrays: list[np.ndarray]
    output_shape: tuple[int, ...]
    output_dtype: str


BUSY = 0.8
"""Least CPU time of this process for each second in which nothing else runs on its core."""


class Measured(dict[str, float]):
    """Microseconds by operator.

    ``loaded`` if other programs took CPU time meanwhile, ``layer`` names the one that was measured.
    """

    loaded: bool = False
    layer: str = ""


def measure(
    functions: Mapping[str, tirx.PrimFunc],
    data: Callable[[str], Data],
    target: Target,
    first: tuple[ScheduleRule, ...] = (),
    *,
    known: Times | None = None,
    rounds: int = ROUNDS,
) -> Measured:
    """Return the best time of each ``f(X, *arrays, Y)`` in microseconds.

    ``data`` returns that of an operator by its name; it is asked only if there is need to.
    The rules ``first`` are tried before the target's own to schedule them. What ``known`` has
    times of is not built; new times go there, unless they were taken under load.

    The functions run in turns, ``rounds`` times each, so that noise meets all of them. Turns are
    timed in pieces, the best of which counts. Threads stay together for a turn, as for a network.
    """
    ffi = engine.ffi()
    modules = {name: scheduled(func, target, first) for name, func in functions.items()}
    key = ""
    if known is not None:
        key = key_of({name: module["main"] for name, module in modules.items()}, target)
        if (before := known.get(key, set(functions))) is not None:
            return Measured(before)
    device = tvm.cpu()
    timers = {}
    for name, module in modules.items():
        built = build_scheduled(module, target).mod
        own = data(name)
        out = tvm.runtime.empty(own.output_shape, own.output_dtype, device)
        main = engine.together(built["main"])
        args = (*(argument_of(a) for a in (own.x, *own.arrays)), out)
        _require_fit(module["main"], args)
        number, repeat = pieces(min(_seconds(main, args) for _ in range(3)))
        timer = built.time_evaluator("main", device, number=number, repeat=repeat)
        timers[name] = engine.together(ffi.convert(functools.partial(_best, timer, args)))
    best = Measured(dict.fromkeys(timers, float("inf")))
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        for name, timer in timers.items():
            best[name] = min(best[name], timer())
    best.loaded = time.process_time() - cpu < BUSY * (time.perf_counter() - wall)
    if known is not None and not best.loaded:
        known.put(key, best)
    return best


def _require_fit(func: tirx.PrimFunc, args: Sequence[Any]) -> None:
    """Raise if an argument has not the shape that ``func`` will read: it checks none itself."""
    wanted = [tuple(map(int, param.ty.shape)) for param in func.params]
    found = [tuple(map(int, arg.shape)) for arg in args]
    if wanted != found:
        raise ValueError(f"a function of {wanted} would be timed with {found}")


def pieces(seconds: float) -> tuple[int, int]:
    """Return calls of a piece, and pieces of a turn, of an operator that takes ``seconds``."""
    calls = max(1, round(PIECE / seconds))
    return calls, max(1, round(TURN / (calls * seconds)))


def _best(timer: Callable[..., Any], args: Sequence[Any]) -> float:
    """Return the microseconds of the best piece of a turn."""
    return float(timer(*args).min * 1e6)


def _seconds(function: Callable[..., object], args: tuple[object, ...]) -> float:
    """Return how long a call takes; the first one reads the code."""
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start
