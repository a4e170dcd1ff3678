"""What each part of the GPU benchmark measures, in pieces that succeed or fail on their own."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu import cases
from benchmarks.gpu.cases import Case
from benchmarks.gpu.prepare import Buildable, kernels
from benchmarks.gpu.timing import Timer

Rows = Iterable[dict[str, Any]]

LAYERS: dict[str, Callable[[], Iterable[Case]]] = {
    "correct": cases.small,
    "papers": cases.papers,
    "depthwise": cases.depthwise,
    "convolutions": cases.convolutions,
    "two_four": cases.two_four,
    "bytes": cases.byte_layers,
    "grid": cases.grid,
}
PARTS = (
    *("correct", "limits", "papers", "depthwise", "convolutions", "two_four", "bytes", "grid"),
    *("metrics", "models", "tune"),
)
"""In the order in which they run: what others need first, what takes longest last."""

SECONDS = 20.0
NETWORK_SECONDS = 240.0
"""Time that must be left to begin a piece; PyTorch compiles a network for minutes."""


@dataclass(frozen=True)
class Job:
    """A piece of a part: its rows, and the time that must be left to begin it."""

    name: str
    run: Callable[[], Rows]
    seconds: float = SECONDS


def buildable(parts: Iterable[str]) -> list[Buildable]:
    """Return the kernels that ``parts`` measure, each once."""
    from benchmarks.gpu import metrics, pairs

    wanted: dict[str, Buildable] = {}
    for part in parts:
        if part in LAYERS:
            wanted |= {k.name: k for k in kernels(LAYERS[part]())}
        if part == "depthwise":
            wanted |= {k.name: k for k in pairs.kernels()}
        if part == "metrics":
            wanted |= {k.name: k for k in metrics.main_kernels()}
    return list(wanted.values())


def jobs(part: str, done: set[str], options: argparse.Namespace) -> Iterator[Job]:
    """Yield the pieces of ``part`` that are not ``done``."""
    from benchmarks.gpu import limits, metrics, models, pairs, tune

    target, timer = options.target, Timer(options.repeats, options.flush)
    if part == "tune":
        run = functools.partial(
            tune.rows, done, target, deadline=options.deadline, workers=options.workers
        )
        yield Job(part, run)
    elif part == "limits":
        yield Job(part, functools.partial(limits.rows, timer))
    elif part == "metrics":
        yield Job(part, functools.partial(metrics.rows, target))
    elif part == "models":
        for name in models.NETWORKS:
            if name not in done:
                run = functools.partial(models.rows, name, timer)
                yield Job(name, run, NETWORK_SECONDS)
    else:
        yield from _layers(part, done, options)
        if part == "depthwise":
            for pair in pairs.pairs():
                if pair.name not in done:
                    yield Job(pair.name, _one(pairs.measure, pair, target, timer))


def _layers(part: str, done: set[str], options: argparse.Namespace) -> Iterator[Job]:
    """Yield a piece for each layer."""
    from benchmarks.gpu import layers

    for case in LAYERS[part]():
        if case.name not in done:
            how = (options.target, Timer(options.repeats, options.flush), options.tune_libraries)
            yield Job(case.name, _one(layers.measure, case, kernels([case]), *how))


def _one(measure: Callable[..., dict[str, Any]], *arguments: Any) -> Callable[[], Rows]:
    """Return a function that gives the one row of ``measure(*arguments)``."""
    return lambda: [measure(*arguments)]
