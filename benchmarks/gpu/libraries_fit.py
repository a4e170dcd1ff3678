"""What libraries of a chip take, fitted to their measured times."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from benchmarks.gpu import cases
from benchmarks.gpu.timed import DTYPE, format_of, modelled, rows
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.cuda import tile_choice
from tvm_sparse.selection.cuda.chip import Chip, DenseLibrary, Quads, Table, Windows
from tvm_sparse.selection.cuda.demand import seconds
from tvm_sparse.selection.cuda.library_time import (
    convolution_seconds,
    dense_seconds,
    modelled_seconds,
    two_four_seconds,
)
from tvm_sparse.selection.cuda.tile_demand import Staging
from tvm_sparse.selection.cuda.tile_option import stored_demand

NAMES = ("cublas", "cublaslt")
"""Exact in fp32: what rounds to TF32 is another product."""

PARTS = ("papers", "grid", "library")
BOUNDS = ((1e-6, 1e-5), (0.9, 2.0), (0.5, 1.0), (0.3, 1.0))
"""Of a launch, of memory, and of the parts of the peaks in fp32 and fp16."""

TWO_FOUR = "cusparselt 2:4"
QUADS_PARTS = ("grid", "two_four")
QUADS_BOUNDS = ((1.0, 40.0), (0.2, 1.0))
"""Of the clocks of a column, and of the part of the peak."""

SIZES = 4
"""Layers of so many sizes must have been timed, for a model of all to be measured."""

Time = Callable[..., float]

Point = tuple[tuple[int, int, int], str, float]
"""Rows, features and columns of a product, its dtype, and its time in microseconds."""


def fitted_library(on: Chip) -> tuple[dict[str, Any], list[float]]:
    """Return the costs of the faster of cuBLAS and cuBLASLt, and the logarithms of their errors.

    Times behind written lines in L2 are of another memory: they count where there are no others.
    """
    known = {part: rows(on, part) for part in PARTS}
    clean = {
        part: [row for row in there if row.get("flush", "dirty") != "dirty"]
        for part, there in known.items()
    }
    known = clean if any(clean.values()) else known
    points = [point for there in known.values() for row in there for point in _points(row)]
    low, high = (np.array(one) for one in zip(*BOUNDS, strict=True))

    def made(scaled: np.ndarray) -> DenseLibrary:
        launch, memory, scalar, tensor = (float(v) for v in low + scaled * (high - low))
        parts = {"float32": scalar, "float16": tensor, "bfloat16": tensor}
        return DenseLibrary("cuBLAS", launch, memory, parts)

    def errors(library: DenseLibrary, time: Time) -> list[float]:
        return [math.log(time(size, dtype, on, library) * 1e6 / us) for size, dtype, us in points]

    result = least_squares(
        lambda scaled: errors(made(scaled), modelled_seconds),
        np.full(4, 0.5),
        bounds=(0, 1),
        loss="soft_l1",
        f_scale=0.1,
    )
    library = replace(made(result.x), table=table_of(known["library"]))
    fitted = replace(on, library=library)
    library = replace(library, windows=windows_of(fitted), quads=quads_of(fitted))
    found = asdict(library)
    found["parts"] = {dtype: round(part, 3) for dtype, part in found["parts"].items()}
    rounded = {name: float(f"{found[name]:.4g}") for name in ("launch", "memory")}
    return {**found, **rounded}, errors(library, dense_seconds)


def table_of(measured: Iterable[dict[str, Any]]) -> Table | None:
    """Return the times of the part ``library``, of the dtypes of which no time is missing."""
    times = {(dtype, *size): us for row in measured for size, dtype, us in _points(row)}
    if not times:
        return None
    axes = [sorted({key[axis] for key in times}) for axis in (1, 2, 3)]
    us = {
        dtype: [[[times[dtype, n, f, c] for c in axes[2]] for f in axes[1]] for n in axes[0]]
        for dtype in sorted({key[0] for key in times})
        if all((dtype, *size) in times for size in itertools.product(*axes))
    }
    return Table(*axes, us)


def windows_of(on: Chip) -> Windows:
    """Return how far the models of convolutions are off on average, if some were measured."""
    known = {case.name: case.contraction for case in cases.convolutions()}
    off: dict[str, list[float]] = {"cudnn nhwc": [], "ours dense": []}
    for row in rows(on, "convolutions"):
        c = known.get(row["case"])
        for name, logarithms in off.items() if c else ():
            late = name in row.get("contaminated", ())
            if name in row["times"] and not late:
                logarithms.append(
                    math.log(row["times"][name]["median_us"] * 1e-6 / _time(c, name, on))
                )
    if not all(off.values()):
        return Windows()
    theirs, ours = (float(f"{math.exp(np.mean(logs)):.4g}") for logs in off.values())
    return Windows(theirs, ours, measured=True)


def quads_of(on: Chip) -> Quads:
    """Return what 2:4 products by cuSPARSELt take; as before, where none were timed."""
    points = [
        ((row["rows"], *size), dtype, row["times"][TWO_FOUR]["median_us"])
        for part in QUADS_PARTS
        for row in rows(on, part)
        if TWO_FOUR in row["times"].keys() - row.get("contaminated", ())
        if (size := size_of(row)) is not None
        for dtype in set(DTYPE.findall(row["case"]))
    ]
    if not points:
        return on.library.quads
    low, high = (np.array(one) for one in zip(*QUADS_BOUNDS, strict=True))

    def made(scaled: np.ndarray) -> Quads:
        step, part = (float(f"{v:.4g}") for v in low + scaled * (high - low))
        return Quads(step, part, measured=len({size[1:] for size, *_ in points}) >= SIZES)

    def errors(scaled: np.ndarray) -> list[float]:
        like = replace(on, library=replace(on.library, quads=made(scaled)))
        return [
            math.log(two_four_seconds(size, dtype, like) * 1e6 / us) for size, dtype, us in points
        ]

    options = {"loss": "soft_l1", "f_scale": 0.1, "diff_step": 1e-3}
    return made(least_squares(errors, np.full(2, 0.5), bounds=(0, 1), **options).x)


def _time(c: Contraction, name: str, on: Chip) -> float:
    """Return the modelled seconds of cuDNN's convolution, or of ours."""
    if name != "ours dense":
        return convolution_seconds(c, on)
    tile = tile_choice.choose_tile(c, Staging(c.matrix_shape[1]), on)
    format = DenseFormat(*c.matrix_shape, lanes=tile.features)
    return seconds(stored_demand(c, format, tile, on), on)


def _points(row: dict[str, Any]) -> list[Point]:
    """Return size (rows, features, columns), dtype and time of a row's dense library.

    A row of the part ``library`` has times of many rows of activations, "cublas N=16".
    """
    late, times = row.get("contaminated", ()), row["times"]
    size = size_of(row)
    if size is None:
        return []
    (dtype,) = set(DTYPE.findall(row["case"]))
    best: dict[int, float] = {}
    for name, taken in times.items():
        library, _, count = name.partition(" N=")
        if library in NAMES and name not in late:
            rows = int(count or row["rows"])
            best[rows] = min(taken["median_us"], best.get(rows, math.inf))
    return [((rows, *size), dtype, us) for rows, us in best.items()]


def size_of(row: dict[str, Any]) -> tuple[int, int] | None:
    """Return features and columns of a row about a linear layer."""
    if "features" in row:
        return row["features"], row["columns"]
    records = [record for record in row.get("kernels", {}).values() if modelled(record)]
    if not records:
        return None
    format = format_of(records[0]["format"])
    return format.rows, format.cols
