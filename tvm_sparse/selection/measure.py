"""Time operators on this machine, side by side, with the data that they will run on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import tirx
from tvm.target import Target

from tvm_sparse.memory import argument_of
from tvm_sparse.schedules.build import build_scheduled, scheduled
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.times import Times, key_of

ROUNDS = 5
MIN_SECONDS = 0.003


@dataclass(frozen=True)
class Data:
    """What operators are timed on: input, packed arrays of each, shape and type of the output.

    ``arrays`` returns those of an operator by its name; it is asked only if there is need to.
    """

    x: np.ndarray
    arrays: Callable[[str], list[np.ndarray]]
    output_shape: tuple[int, ...]
    output_dtype: str


def measure(
    functions: Mapping[str, tirx.PrimFunc],
    data: Data,
    target: Target,
    first: tuple[ScheduleRule, ...] = (),
    *,
    known: Times | None = None,
    rounds: int = ROUNDS,
) -> dict[str, float]:
    """Return the best time of each ``f(X, *arrays, Y)`` in microseconds.

    The rules ``first`` are tried before the target's own to schedule them. What ``known`` has
    times of is not built; new times go there.

    The functions run in turns, ``rounds`` times each, so that noise meets all of them.
    """
    modules = {name: scheduled(func, target, first) for name, func in functions.items()}
    key = ""
    if known is not None:
        key = key_of({name: module["main"] for name, module in modules.items()}, target)
        if (before := known.get(key, set(functions))) is not None:
            return before
    device = tvm.cpu()
    x = argument_of(data.x)
    out = tvm.runtime.empty(data.output_shape, data.output_dtype, device)
    timers = {}
    for name, module in modules.items():
        built = build_scheduled(module, target).mod
        args = (x, *(argument_of(a) for a in data.arrays(name)), out)
        built["main"](*args)
        timer = built.time_evaluator(
            "main", device, number=1, repeat=1, min_repeat_ms=int(MIN_SECONDS * 1e3)
        )
        timers[name] = (timer, args)
    best: dict[str, Any] = dict.fromkeys(timers, float("inf"))
    for _ in range(rounds):
        for name, (timer, args) in timers.items():
            best[name] = min(best[name], timer(*args).median * 1e6)
    if known is not None:
        known.put(key, best)
    return best
