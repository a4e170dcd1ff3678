"""Park et al., Fig. 6b: time of a depthwise layer while more and more vectors are pruned.

On the paper's GPU time falls in steps, whenever 32 more vectors of each sub-GEMM are gone. Run with
``python -m benchmarks.papers.deprune_steps``.
"""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TVM_NUM_THREADS", "1")

import numpy as np
import torch

from benchmarks.cases.kernel_cases import depthwise
from benchmarks.harness.kernel_race import DENSE, Race, best
from benchmarks.papers.output import COLORS, table, tell, write
from benchmarks.papers.refactored import Refactored
from tvm_sparse.passes.shrink.order_channels import order_by_taps
from tvm_sparse.patterns.depthwise import DepthwiseTaps
from tvm_sparse.pruning.deprune.diagonal import GROUP
from tvm_sparse.pruning.deprune.recalibration import TILE

NAME = "deprune_steps"
CASE = depthwise(14, 480, 3)
"""EfficientNet-B0's seventh depthwise layer; the paper does not say which one it shows."""

PRUNED = tuple(range(0, 264, 8))
PROGRAMS = {"ours": "ours", "product": "DR, products alone", "refactored": "DR with im2col"}


def measure(pruned: tuple[int, ...] = PRUNED) -> dict[str, Any]:
    """Return the time of every program with each number of vectors pruned from a sub-GEMM."""
    race = Race(CASE)
    race.add_dense()
    full = GROUP * race.weight.shape[1]
    _add(race, DENSE, race.weight)
    for count in pruned[1:]:
        mask = DepthwiseTaps(GROUP, keep=full - count).project(np.abs(race.weight))
        mask = mask[order_by_taps(mask)]
        race.add_sparse(count, mask)
        _add(race, count, race.weight * mask)
    race.run(rounds=15, seconds=0.01)
    return {
        "case": CASE.name,
        "vectors": full,
        "libraries_dense": {
            name: t for name, t in race.libraries(DENSE).items() if name not in PROGRAMS
        },
        "rows": [{"pruned": count, **_row(race, count or DENSE)} for count in pruned],
        "error": race.error,
    }


def _add(race: Race, key: object, matrix: np.ndarray) -> None:
    layer = Refactored(CASE, race.x, matrix)
    race.add_program(key, "product", layer.output(layer.product))
    race.add_program(key, "refactored", layer.output(layer.whole))


def _row(race: Race, key: object) -> dict[str, Any]:
    dr = race.libraries(key)
    return {"ours": race.ours(key), **{name: dr[name] for name in ("product", "refactored")}}


def times(content: dict[str, Any], program: str) -> list[float]:
    """Return the medians in us over the pruned vectors."""
    if program == "ours":
        return [best(row["ours"])[1] for row in content["rows"]]
    return [row[program]["median_us"] for row in content["rows"]]


def fall_at_tiles(pruned: list[int], taken: list[float]) -> float:
    """Return the share of the overall fall in time that happens where a tile of 32 is completed.

    The first entry, the unpruned layer, is left out, since it may run another kernel. A quarter of
    the steps of 8 vectors ends at a multiple of 32: a straight line gives 0.25, the paper's
    staircase 1.
    """
    steps = zip(pruned[2:], taken[1:], taken[2:], strict=False)
    falls = {count: before - after for count, before, after in steps}
    return sum(fall for count, fall in falls.items() if count % TILE == 0) / sum(falls.values())


def finding(content: dict[str, Any]) -> str:
    """Say whether time falls in steps."""
    steps = _steps(content)
    return (
        f"{steps['product']:.0%} (DR) and {steps['ours']:.0%} (direct kernel) of the fall in time "
        "happen at multiples of 32 vectors, where a straight line has 25 % and the paper's "
        f"staircase 100 %: {_verdict(max(steps.values()))}"
    )


def _steps(content: dict[str, Any]) -> dict[str, float]:
    pruned = [row["pruned"] for row in content["rows"]]
    return {name: fall_at_tiles(pruned, times(content, name)) for name in ("ours", "product")}


def markdown(content: dict[str, Any]) -> str:
    """Return the page."""
    rows = [
        [row["pruned"], *(f"{times(content, program)[i]:.1f}" for program in PROGRAMS)]
        for i, row in enumerate(content["rows"])
        if row["pruned"] % TILE == 0
    ]
    name, library = best(content["libraries_dense"])
    steps = _steps(content)
    return "\n\n".join(
        [
            "# DEPrune: time over pruned vectors (Fig. 6b)",
            f"{content['case']} (EfficientNet-B0), one image, one thread, float32; medians in us. "
            f"A sub-GEMM has {content['vectors']} vectors, as many are pruned from each (BWT), by "
            "magnitude of random weights. DR is the diagonal-wise refactorization with PyTorch's "
            "batched product, with and without im2col; ours is the direct kernel with channels "
            f"ordered by their taps, as `ts.compile` orders them. {name} needs {library:.1f} us "
            "for the unpruned layer.",
            table(["pruned", *PROGRAMS.values()], rows),
            "The paper's time falls only where 32 more vectors are gone, because its GPU tiles "
            "have 32 columns. Here the share of the fall that happens at multiples of 32 is "
            f"{steps['product']:.0%} for DR's products and {steps['ours']:.0%} for our kernel (a "
            "straight line: 25 %, the paper's staircase: 100 %): " + _verdict(max(steps.values())),
            "![Time over pruned vectors](deprune_steps.png)",
        ]
    )


def _verdict(share: float) -> str:
    if share > 0.75:
        return "the step function is there on this CPU too."
    return (
        "the step function does not exist on this CPU, and aligning to 32 vectors (HSR) buys "
        "nothing beyond the vectors that it removes."
    )


def draw(content: dict[str, Any], figure: Any) -> None:
    """Draw time over pruned vectors, tiles of 32 as grid lines."""
    axes = figure.subplots()
    pruned = [row["pruned"] for row in content["rows"]]
    for (program, label), color in zip(PROGRAMS.items(), COLORS, strict=False):
        axes.plot(pruned, times(content, program), "-o", color=color, label=label, ms=3)
    name, library = best(content["libraries_dense"])
    axes.axhline(library, color="black", linewidth=0.8, label=f"unpruned, {name}")
    axes.set_xticks(pruned[:: TILE // 8])
    axes.grid(axis="x", alpha=0.5)
    axes.set(xlabel="vectors pruned from each sub-GEMM", ylabel="us", yscale="log")
    axes.legend(fontsize="small")


def main() -> None:
    """Measure and write the results."""
    torch.set_num_threads(1)
    tell(CASE.name)
    content = measure()
    write(NAME, content, markdown(content), lambda f: draw(content, f))


if __name__ == "__main__":
    main()
