"""Step 2: what dense libraries take, over a logarithmic grid: the time of a dense candidate."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from functools import partial

import torch

from benchmarks.gpu import device, libraries
from benchmarks.gpu.queue.step import Piece, Plan, Row
from benchmarks.gpu.timing import Timer

ROWS = (1, 4, 16, 32, 64, 256, 1024, 4096)
EDGES = (256, 1024, 4096, 8192, 16384)
DTYPES = ("float32", "float16", "bfloat16")
LIBRARIES = ("cublas", "cublaslt")
CALLS = 20


def pieces(plan: Plan) -> Iterator[Piece]:
    """Yield a piece for each dtype, columns and features, over all counts of rows."""
    edges, rows = ((16, 32), ROWS[:2]) if plan.small else (EDGES, ROWS)
    timer, key = Timer(min(CALLS, plan.repeats)), plan.key()
    for dtype, columns, features in itertools.product(DTYPES, edges, edges):
        name = f"{features}x{columns}, {dtype}"
        run = partial(measured, name, (features, columns), dtype, rows, timer)
        yield Piece(name, "library", key, run)


def measured(
    name: str, shape: tuple[int, int], dtype: str, rows: Iterable[int], timer: Timer
) -> Iterator[Row]:
    """Yield the row of one weight: the time of each library for each count of rows."""
    on, kind, generator = device.current(), getattr(torch, dtype), torch.Generator().manual_seed(0)
    weight = on.put(torch.randn(shape, generator=generator)).to(kind)
    programs: libraries.Found = {}
    for count in rows:
        x = on.put(torch.randn((count, shape[1]), generator=generator)).to(kind)
        for library in LIBRARIES:
            programs[f"{library} N={count}"] = libraries.product(x, weight, library, "highest")
    missing: dict[str, str] = {}
    programs = libraries.working(programs, missing)
    about = {"case": name, "features": shape[0], "columns": shape[1], "dtype": dtype}
    yield {**about, "missing": missing, **timer.row(programs)}


def tells(rows: list[Row]) -> str:
    """Count the points."""
    return f"{sum(len(row['times']) for row in rows)} times of libraries"
