"""The costs of depthwise kernels and of fused pairs on a chip, fitted to their measured times."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.gpu.cases import depthwise
from benchmarks.gpu.closest import closest
from benchmarks.gpu.pairs import pairs
from benchmarks.gpu.timed import format_of, rows
from tvm_sparse.ops.cuda.separable import SeparableTile
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda.chip import Chip, Costs
from tvm_sparse.selection.cuda.depthwise_options import (
    depthwise_seconds,
    strip_instructions,
    taps_instructions,
)
from tvm_sparse.selection.cuda.separable_options import shape_seconds

BOUNDS = {
    "strip": (0.5, 8.0),
    "taps": (0.5, 8.0),
    "begin": (0.0, 20000.0),
    "pair": (0.5, 12.0),
    "pair_step": (0.0, 20000.0),
}
START = {"strip": 2.0, "taps": 3.0, "begin": 4000.0, "pair": 3.0, "pair_step": 5000.0}

Model = Callable[[Chip], float]


@dataclass(frozen=True)
class TimedDepthwise:
    """A kernel that was timed, and the seconds that the model gives it on a chip."""

    case: str
    kernel: str
    us: float
    seconds: Model


def timed(on: Chip) -> Iterator[TimedDepthwise]:
    """Yield the depthwise kernels and fused pairs that were timed on ``on``."""
    known = {row["case"]: row for row in rows(on, "depthwise")}
    for case in depthwise():
        if row := known.get(case.name):
            c, written = case.contraction, row.get("flush", "dirty") == "dirty"
            name = "dense" if case.pattern == "none" else "depthwise_taps"
            taken = row["times"].get(f"ours {name}")
            if taken is None or f"ours {name}" in row.get("contaminated", ()):
                continue
            if name == "dense":
                count, cost = strip_instructions(c), "strip"
            else:
                format = format_of(row["kernels"][name]["format"])
                count, cost = taps_instructions(c, format.buckets.parts[0].slots), "taps"

            def seconds(chip: Chip, c=c, count=count, cost=cost, written=written) -> float:
                work = count * getattr(chip.costs, cost)
                return depthwise_seconds(c, work, chip, written=written)

            yield TimedDepthwise(case.name, name, taken["median_us"], seconds)
    for pair in pairs():
        row = known.get(pair.name)
        if row is None or "tile" not in row["kernels"]["separable"]:
            continue
        tile, *others = row["kernels"]["separable"]["tile"]
        shape = SeparableTile(ThreadBlockTile(*tile), *others)
        written = row.get("flush", "dirty") == "dirty"

        def seconds(chip: Chip, pair=pair, shape=shape, written=written) -> float:
            return shape_seconds(pair.first, pair.second, shape, chip, written=written)

        yield TimedDepthwise(pair.name, "fused", row["times"]["ours fused"]["median_us"], seconds)


def error(one: TimedDepthwise, on: Chip) -> float:
    """Return the logarithm of modelled over measured time."""
    return math.log(one.seconds(on) * 1e6 / one.us)


def fit_depthwise(on: Chip) -> Costs:
    """Return the costs of ``on`` with those of depthwise kernels fitted, if any was timed."""
    found = list(timed(on))
    if not found:
        return on.costs
    return closest(on, BOUNDS, START, lambda chip: [error(one, chip) for one in found])
