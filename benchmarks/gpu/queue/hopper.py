"""Step 5: kernels for Hopper that were written by hand, the bound for those that are generated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.gpu.hopper import machine_code, measure
from benchmarks.gpu.hopper.points import Point, kernels, points
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.timing import Timer
from tvm_sparse.errors import SparseError

MISSING = "needs a GPU of compute capability 9.0"


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each point; a single one, skipped, where no Hopper is."""
    key, timer = _key(plan), Timer(plan.repeats)
    there = not plan.small and torch.cuda.is_available()
    if not there or torch.cuda.get_device_capability() != (9, 0):
        yield Piece("kernels by hand", "hopper", key, lambda: (), skip=MISSING)
        return
    for point in points():
        yield Piece(point.name, "hopper", key, partial(_measured, point, timer))


def build() -> str:
    """Compile all kernels; return why that fails, or an empty text."""
    try:
        machine_code.compile_all(kernels())
    except SparseError as error:
        return str(error)
    return ""


def _measured(point: Point, timer: Timer) -> list[Row]:
    return [measure.row(point, timer)]


def _key(plan: Plan) -> str:
    """Return a digest of how is measured and of all that the kernels are made of."""
    digest = hashlib.sha256(plan.key().encode())
    folder = machine_code.source.KERNELS.parent
    for file in sorted(folder.rglob("*")):
        if file.suffix in (".py", ".cuh"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def tells(rows: list[Row]) -> str:
    """Say what each design gains at best and at worst over the dense library."""
    gains: dict[str, list[float]] = {}
    for row in rows:
        times = {name: taken["median_us"] for name, taken in row["times"].items()}
        gains.setdefault(row["design"], []).append(times["cublas"] / times["by hand"])
    return ", ".join(f"{n} {min(g):.2f} to {max(g):.2f}x" for n, g in gains.items())
