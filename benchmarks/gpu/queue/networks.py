"""Step 7: whole networks, compiled in the background: ours sparse and dense, PyTorch's best.

What is not compiled when its turn comes is measured at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from benchmarks.gpu import device, models
from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.ratios import ratio_of
from benchmarks.gpu.timing import Timer

LIMIT = 400.0
NOT_YET = "not compiled yet"
MODE = "reduce-overhead"
"""torch.compile's mode: its own CUDA graphs, and no search that takes minutes."""


def names(plan: Plan) -> list[str]:
    """Return the networks, those first that the compiler is for."""
    return list(models.TINY if plan.small else reversed(models.NETWORKS))


def start(plan: Plan, background: Background) -> None:
    """Begin to compile them."""
    for name in names(plan):
        background.start(name, build, name, plan.target, background.ptx)


def build_all(plan: Plan, *, ptx: bool) -> None:
    """Compile them now."""
    for name in names(plan):
        build(name, plan.target, ptx)


def pieces(plan: Plan, background: Background) -> Iterator[Piece]:
    """Yield a piece for each network."""
    key = plan.key(*models.CODE)
    for name in names(plan):
        run = partial(_measured, name, plan, background)
        skip = "" if background.ready(name) else NOT_YET
        seconds = 15.0 if plan.small else 60.0
        yield Piece(name, "models", key, run, skip=skip, seconds=seconds, limit=LIMIT)


def _measured(name: str, plan: Plan, background: Background) -> Iterable[Row]:
    if future := background.tasks.get(name):
        future.result()
    build(name, plan.target, device.current().ptx)
    return models.rows(name, Timer(plan.repeats), "" if plan.small else MODE)


def build(name: str, target: str, ptx: bool) -> None:
    """Compile a network, sparse and dense, unless it is there."""
    models.build_artifacts(name, target, ptx=ptx)


def tells(rows: list[Row]) -> str:
    """Say the ratio over PyTorch of each network, and of ours sparse over ours dense."""
    told = []
    for row in rows:
        ratio = ratio_of(row, [row]).value
        times = {name: taken["median_us"] for name, taken in row["times"].items()}
        own = times["ours dense"] / times["ours sparse"]
        over = f"{ratio:.2f}x" if ratio else "no ratio"
        told.append(f"{row['case']} {over} PyTorch, {own:.2f}x ours dense")
    return "; ".join(told)
