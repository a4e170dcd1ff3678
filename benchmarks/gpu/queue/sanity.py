"""Step 0: which GPU this is, and whether every operator still computes what it must."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from benchmarks.gpu import device, layers, prepare
from benchmarks.gpu.cases import Case, small
from benchmarks.gpu.prepare import Kernel
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.timing import Timer

FEW, ROWS = 6, 5
"""Every so many of the small cases, up to so many rows, for a small plan."""


def cases(plan: Plan) -> list[Case]:
    """Return small layers of every operator."""
    if plan.small:
        return [case for case in small() if case.contraction.lead[0] <= ROWS][::FEW]
    return list(small())


def kernels(plan: Plan) -> list[Kernel]:
    """Return their kernels."""
    return prepare.kernels(cases(plan))


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield the chip, then a piece for each small layer."""
    yield Piece("chip", "chip", plan.key(), chip)
    key, timer = plan.key(*prepare.KERNEL_CODE), Timer(plan.repeats)
    for case in cases(plan):
        needs = tuple(prepare.kernels([case]))
        run = partial(_measured, case, needs, plan.target, timer)
        yield Piece(case.name, "correct", key, run, needs)


def chip() -> Iterable[Row]:
    """Return what is known of the GPU."""
    about = device.current().about()
    return [{"case": about["gpu"], **about}]


def _measured(case: Case, needs: tuple[Kernel, ...], target: str, timer: Timer) -> Iterable[Row]:
    return [layers.measure(case, needs, target, timer, tune_libraries=False)]


def tells(rows: list[Row]) -> str:
    """Say how near the largest error comes to the allowed one."""
    shares = [share for row in rows for share in row.get("errors", {}).values()]
    return f"largest error {max(shares):.2g} of the allowed one" if shares else ""
