"""Step 6: what is contaminated is measured again, with Triton's block kernel tuned."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.gpu import cases, layers, prepare
from benchmarks.gpu.cases import Case
from benchmarks.gpu.prepare import Kernel
from benchmarks.gpu.queue import mends
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.ratios import ratio_of
from benchmarks.gpu.timing import Timer
from benchmarks.harness.common import load

PARTS = {
    "grid": cases.grid,
    "papers": cases.papers,
    "depthwise": cases.depthwise,
    "convolutions": cases.convolutions,
    "two_four": cases.two_four,
    "bytes": cases.byte_layers,
}
TUNING = 90.0
"""Seconds that a tuned case may take."""


def contaminated(plan: Plan) -> list[tuple[str, Case]]:
    """Return the parts and cases whose results are marked; a block case for a small plan."""
    if plan.small:
        return [("grid", mends.TINY_BLOCKS.case(16))]
    found = []
    for part, listed in PARTS.items():
        rows = load(f"gpu_{part}").get("rows", [])
        marked = {row["case"] for row in rows if "contaminated" in row}
        found += [(part, case) for case in listed() if case.name in marked]
    # Blocks first: their ratios are the ones that were withdrawn.
    return sorted(found, key=lambda one: not one[1].pattern.startswith("block"))


def kernels(plan: Plan) -> list[Kernel]:
    """Return the kernels of the marked cases."""
    return prepare.kernels(case for _, case in contaminated(plan))


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each marked case."""
    key, timer = plan.key(*prepare.KERNEL_CODE), Timer(plan.repeats)
    for part, case in contaminated(plan):
        needs = tuple(prepare.kernels([case]))
        run = measured(case, needs, plan.target, timer, tune=True)
        seconds = TUNING if case.pattern.startswith("block") and not plan.small else 15.0
        yield Piece(case.name, part, key, run, needs, seconds=seconds)


def measured(
    case: Case, needs: tuple[Kernel, ...], target: str, timer: Timer, *, tune: bool = False
) -> Callable[[], list[Row]]:
    """Return what measures ``case``: our kernels and the libraries, tuned where one can be."""
    return lambda: [layers.measure(case, needs, target, timer, tune_libraries=tune)]


def tells(rows: list[Row]) -> str:
    """Say between which ratios the rows lie."""
    found = [ratio.value for row in rows if (ratio := ratio_of(row, rows)).value]
    return f"{min(found):.2f} to {max(found):.2f}x the best library" if found else "no ratio"
