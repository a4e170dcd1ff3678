"""The row of a point: its time beside the dense library's, what binds it, its error."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.gpu import libraries
from benchmarks.gpu.cases import SIZE
from benchmarks.gpu.hopper import weights
from benchmarks.gpu.hopper.design import LEFT_OUT
from benchmarks.gpu.hopper.launch import Kernel
from benchmarks.gpu.hopper.points import Point
from benchmarks.gpu.timing import Timer

LIMIT = 1e-3
"""Largest error, absolute and relative to the output: fp16 rounds to 5e-4."""

LEFT_OUT_NAMES = dict(zip(LEFT_OUT[1:], ("decoding", "products", "activations"), strict=True))


def row(point: Point, timer: Timer) -> dict[str, Any]:
    """Return the point's row.

    Raises
    ------
    ArithmeticError
        If a product of small integers is not exact, or one of reals is off.
    """
    generator = torch.Generator("cuda").manual_seed(1)
    kernel = Kernel(point.design, point.shape)
    # The first product is of integers: it must be exact.
    for integers in (True, False):
        weight, x = _data(point, generator, integers=integers)
        program = kernel.program(weight, x)
        error = _error(point, program(), x.float() @ weight.dense.float().T, integers=integers)
    dense = libraries.product(x, weight.dense, "cublas", "highest")
    return {
        "case": point.name,
        "rows": point.rows,
        "pattern": point.pattern,
        "sparsity": point.sparsity,
        "design": point.design.name,
        "shape": point.shape._asdict(),
        "weight_bytes": weight.packed.nbytes,
        "error": error,
        **timer.row({"by hand": program, "cublas": dense}),
        **(_ablation(point, weight, x, timer) if point.left_out[1:] else {}),
    }


def _ablation(
    point: Point, weight: weights.Weight, x: torch.Tensor, timer: Timer
) -> dict[str, Any]:
    """Return what the kernel takes whole, and without what it can leave out."""
    programs = {
        name: Kernel(point.design, point.shape, name).program(weight, x) for name in point.left_out
    }
    taken = {name: t["median_us"] for name, t in timer.row(programs)["times"].items()}
    whole = taken.pop(LEFT_OUT[0])
    without = {LEFT_OUT_NAMES[name]: us for name, us in taken.items()}
    found = {"shape": point.shape._asdict(), "whole_us": whole, "without_us": without}
    return {"ablation": found}


def _data(
    point: Point, generator: torch.Generator, *, integers: bool
) -> tuple[weights.Weight, torch.Tensor]:
    zeros = point.sparsity if point.design.name == "tiles" else 0.0
    features, size = point.shape.features, (SIZE, SIZE)
    weight = weights.make(point.design, features, size, generator, zeros=zeros, integers=integers)
    shape, on = (point.rows, SIZE), generator.device
    if integers:
        return weight, torch.randint(-2, 3, shape, device=on, generator=generator).half()
    return weight, torch.randn(shape, device=on, generator=generator).half()


def _error(point: Point, y: torch.Tensor, expected: torch.Tensor, *, integers: bool) -> float:
    """Return the largest error of ``y``."""
    torch.cuda.synchronize()
    error = (y.float() - expected).abs()
    allowed = 0.0 if integers else LIMIT * (1 + expected.abs())
    if not bool((error <= allowed).all()):
        raise ArithmeticError(f"{point.name}: off by {float(error.max())}")
    return float(error.max())
