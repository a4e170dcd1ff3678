"""Arguments to measure a function with: valid indices, and numbers that sum without rounding."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from tvm import tirx

from tvm_sparse.base import json_text
from tvm_sparse.base.numerics import HALVES, is_float, samples

LARGEST = 4
SCALE = 2.0**-5
"""Values are multiples of this, up to ``LARGEST`` of them: sums of their products are exact in any
order, and small enough for sigmoids and the like not to saturate."""

SPECS = "specs.json"

Spec = tuple[tuple[int, ...], str]
"""Shape and dtype."""

DTYPES = frozenset(np.dtype(d).name for d in "bBhHiIqQefd").union(HALVES)
"""What files hold: NumPy's types, and the bits of those that it has from another package."""


def operands(
    func: tirx.PrimFunc, fixed: Mapping[int, np.ndarray], outputs: int, seed: int = 0
) -> list[np.ndarray]:
    """Return an array for each parameter of ``func`` but its last ``outputs``.

    Parameters
    ----------
    func
        A function whose extents are fixed.
    fixed
        Arrays by parameter position: weights in the operator's format, from its ``encode``.
        Indices are taken as they are, because only they are valid. Numbers are drawn anew, so no
        weight is ever written to a file or sent to another machine.
    outputs
        Number of parameters that ``func`` writes.
    seed
        Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    inputs = list(func.params)[: len(func.params) - outputs]
    return [
        fixed[i]
        if i in fixed and not _is_number(fixed[i].dtype)
        else _draw(rng, *spec(param), first=i == 0)
        for i, param in enumerate(inputs)
    ]


def spec(param: Any) -> Spec:
    """Return shape and dtype of a parameter."""
    return tuple(map(int, param.shape)), str(param.dtype)


def misfit(func: tirx.PrimFunc, arrays: Sequence[np.ndarray]) -> str | None:
    """Return which of ``arrays`` is not what ``func`` reads there, ``None`` if each is."""
    for array, param in zip(arrays, func.params, strict=False):
        found, expected = (array.shape, array.dtype.name), spec(param)
        if found != expected:
            return f"operand '{param.name}' is {found}, not {expected}"
    return None


def unmeasurable(func: tirx.PrimFunc) -> str | None:
    """Return why ``func`` cannot be measured, ``None`` if it can.

    TVM's search takes fixed extents only. What suits open ones is chosen when compiling.
    """
    for param in func.params:
        if not all(isinstance(e, tirx.IntImm) for e in getattr(param, "shape", [param])):
            return "its extents are open; tune the model with its shapes fixed, as with --shape"
        if str(param.dtype) not in DTYPES:
            return f"dtype {param.dtype} of '{param.name}'"
    return None


def save(directory: Path, inputs: list[np.ndarray], outputs: list[Spec]) -> None:
    """Write arguments where :func:`load` finds them."""
    directory.mkdir(parents=True, exist_ok=True)
    for i, array in enumerate(inputs):
        write(directory / f"input{i}.npy", array)
    specs = {"inputs": [array.dtype.name for array in inputs], "outputs": outputs}
    (directory / SPECS).write_text(json.dumps(specs), encoding="utf-8")


def load(directory: Path) -> tuple[list[np.ndarray], list[Spec]]:
    """Return the inputs, and shape and dtype of the outputs."""
    specs = json_text.parsed((directory / SPECS).read_text(encoding="utf-8"))
    inputs = [read(directory / f"input{i}.npy", t) for i, t in enumerate(specs["inputs"])]
    return inputs, [(tuple(shape), dtype) for shape, dtype in specs["outputs"]]


def write(path: Path, array: np.ndarray) -> None:
    """Write an array, or its bits if NumPy's files do not know its type."""
    foreign = array.dtype.kind == "V"
    np.save(path, array.view(f"u{array.itemsize}") if foreign else array)


def read(path: Path, dtype: str) -> np.ndarray:
    """Return the array of ``dtype`` that :func:`write` wrote."""
    found: np.ndarray = np.load(path).view(dtype)
    return found


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two results agree, up to the rounding of an epilogue.

    The contraction itself is exact with :func:`operands`, so the bound is a few units in the last
    place of the largest result; one product too many or too few is far above it.
    """
    if not is_float(expected.dtype.name):
        return bool((got == expected).all())
    unit = float(ml_dtypes.finfo(expected.dtype).eps)
    got, expected = got.astype(np.float64), expected.astype(np.float64)
    largest = float(np.nanmax(np.abs(expected), initial=0.0))
    tolerance = min(64 * unit, 0.02) * max(largest, SCALE**2)
    return bool(np.allclose(got, expected, rtol=0, atol=tolerance, equal_nan=True))


def _is_number(dtype: Any) -> bool:
    """Whether an array of ``dtype`` holds weights: no index is a signed byte."""
    return is_float(np.dtype(dtype).name) or bool(dtype == np.int8)


def _draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, first: bool) -> np.ndarray:
    """Return small floats, bytes of the whole range, or zeros: the index that is always valid.

    Bytes of the ``first`` parameter are activations, other integers indices (of tokens, say).
    """
    number = np.dtype(dtype)
    if not _is_number(number) and not (first and number == np.uint8):
        return np.zeros(shape, number)
    if not is_float(dtype):
        return samples(rng, shape, dtype)
    values = rng.integers(-LARGEST, LARGEST, math.prod(shape), endpoint=True).reshape(shape)
    return np.asarray((values * SCALE).astype(number))
