"""Inputs of a graph as example tensors for ``torch.export``, symbolic extents as its dimensions."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch

from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.frontends.onnx.types import dtype_of
from tvm_sparse.frontends.onnx.weights import LARGEST

_EXAMPLES = (4, 6, 10, 14, 22, 26, 34, 38)
"""Extents that stand for symbols while a graph is traced; different, so that no two are mixed."""


def examples(graph: Any) -> tuple[list[torch.Tensor], list[dict[int, Any]], list[dict[int, str]]]:
    """Return an example of each input, its symbolic extents by axis, and their names by axis.

    Equal names are the same extent; one without a name is an extent of its own.

    Raises
    ------
    UnsupportedError
        An input is no tensor, or of a type that has no counterpart in torch.
    InputError
        Its shape cannot be.
    """
    dims: dict[str, Any] = {}
    tensors, shapes, names = [], [], []
    for value in graph.input:
        place = f"input '{value.name}'"
        kind = value.type.WhichOneof("value")
        if kind != "tensor_type":
            raise UnsupportedError(place, f"is a {str(kind).removesuffix('_type')}", "a tensor")
        if not value.type.tensor_type.HasField("shape"):
            raise InputError(place, "has no shape", "extents or symbols", "export it with a shape")
        shape, symbols, known = [], {}, {}
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if dim.WhichOneof("value") == "dim_value":
                shape.append(dim.dim_value)
                continue
            name = dim.dim_param or f"{value.name}_{axis}"
            if name not in dims:
                dims[name] = torch.export.Dim(f"d{len(dims)}", min=1)
            symbols[axis] = dims[name]
            if name.isidentifier():
                known[axis] = name
            shape.append(_EXAMPLES[list(dims).index(name) % len(_EXAMPLES)])
        dtype = dtype_of(value.type.tensor_type.elem_type, place)
        tensors.append(_example(place, shape, dtype))
        shapes.append(symbols)
        names.append(known)
    return tensors, shapes, names


def _example(place: str, shape: list[int], dtype: torch.dtype) -> torch.Tensor:
    """Return a tensor whose elements nobody reads."""
    if min(shape, default=0) >= 0 and math.prod(shape) * dtype.itemsize <= LARGEST:
        with contextlib.suppress(RuntimeError):  # there is no memory for it
            return torch.empty(shape, dtype=dtype)
    raise InputError(place, f"has the shape {shape}", "one that fits into memory")
