"""An ONNX file for the shapes that a caller asks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch.export import Dim

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.asked import Asked
from tvm_sparse.frontends.files.part import Part
from tvm_sparse.frontends.model import Model
from tvm_sparse.frontends.onnx.inputs import Given, OpenAxes, Range
from tvm_sparse.frontends.onnx.model import load_onnx


def load_shaped(path: Path, part: Part, asked: Asked) -> Model:
    """Import the ONNX file ``path``, or a part of it, with example inputs, shapes or bounds.

    Raises
    ------
    InputError
        What is asked for contradicts the file, or the file cannot be imported.
    """
    dynamic = bool(asked.dynamic_batch) or asked.dynamic_shapes is not None
    if dynamic and not (asked.args or asked.kwargs):
        raise InputError(
            "dynamic_batch" if asked.dynamic_batch else "dynamic_shapes",
            "is set for a file whose own open extents stay open",
            "example inputs beside it, whose other extents are fixed",
            "leave it out, or pass example inputs",
        )
    given = Given(
        asked.shapes,
        {name: _range(name, limits) for name, limits in asked.bounds.items()},
        asked.args,
        asked.kwargs,
        _open_axes(asked) if dynamic else None,
    )
    return load_onnx(path, part, given)


def _range(name: str, limits: Any) -> Range:
    """Return the range that ``limits`` are: the largest size, or the smallest and the largest."""
    if isinstance(limits, int):
        return 1, limits
    if isinstance(limits, Sequence) and len(limits) == 2 and isinstance(limits[0], int):
        low, high = limits
        if high is None or isinstance(high, int):
            return low, high
    raise InputError(f"bounds of '{name}'", f"are {limits!r}", "a number or a pair of numbers")


def _open_axes(asked: Asked) -> OpenAxes:
    """Return which axes of an example stay open, with their ranges."""
    shapes = asked.dynamic_shapes
    first: list[int] = []

    def axes(name: str, position: int, shape: tuple[int, ...]) -> dict[int, Range]:
        if shapes is None:
            first.extend(shape[:1])
            follows = bool(shape) and shape[0] == first[0]
            limits = (1, None) if asked.dynamic_batch is True else asked.dynamic_batch
            return {0: limits} if follows and isinstance(limits, tuple) else {}
        if isinstance(shapes, Mapping):
            found = shapes.get(name)
        else:
            found = shapes[position] if position < len(shapes) else None
        pairs = found.items() if isinstance(found, Mapping) else enumerate(found or ())
        return {axis: _limits(dim) for axis, dim in pairs if not isinstance(dim, int | None)}

    return axes


def _limits(dim: Any) -> Range:
    if isinstance(dim, Dim):
        high = getattr(dim, "max", None)
        return max(1, int(getattr(dim, "min", 1))), None if high is None else _finite(high)
    return 1, None


def _finite(high: Any) -> int | None:
    return int(high) if isinstance(high, int) and high < 1 << 60 else None
