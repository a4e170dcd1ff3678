"""Tensors that are made from nothing or by a rule: constants, ranges, triangles."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.known import Known
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter
from tvm_sparse.frontends.onnx.types import dtype_of, to_array


@converter("Constant", raw=True)
def _constant(
    *,
    value: Any = None,
    value_float: float | None = None,
    value_floats: Any = None,
    value_int: int | None = None,
    value_ints: Any = None,
    node: Node,
) -> Known | Tensor:
    """``value`` is a message, or the weight that was taken out of it."""
    if isinstance(value, Known | Tensor):
        return value
    if value is not None:
        return Known(to_array(value, node.place))
    if value_float is not None or value_floats is not None:
        return Known(np.array(value_float if value_floats is None else value_floats, np.float32))
    return Known(np.array(value_int if value_ints is None else value_ints, np.int64))


@converter("ConstantOfShape", static=["shape"])
def _filled(shape: np.ndarray, *, value: Any = None, node: Node) -> Tensor:
    if value is None:
        return torch.full(shape.tolist(), 0.0)
    number = to_array(value, node.place).reshape(()).item()
    return torch.full(shape.tolist(), number, dtype=dtype_of(value.data_type, node.place))


@converter("Range", static=["start", "limit", "delta"], raw=True)
def _range(start: np.ndarray, limit: np.ndarray, delta: np.ndarray, *, node: Node) -> Tensor:
    """Symbolic extents have the type of the other operands: integers of 64 bits, or floats."""
    operands = start, limit, delta
    if any(a.dtype == object for a in operands):
        numbers = [a.item() for a in operands]
        real = [a.dtype.name for a in operands if a.dtype.kind == "f"]
        if not all(isinstance(n, torch.SymInt) or n == int(n) for n in numbers):
            raise node.refuse("counts to an open extent in fractions", "whole numbers")
        whole: list[Any] = [n if isinstance(n, torch.SymInt) else int(n) for n in numbers]
        places = torch.arange(*whole, dtype=torch.int64)
        return places.to(getattr(torch, real[0])) if real else places
    dtype = getattr(torch, start.dtype.name)
    if start.dtype.kind not in "iu":
        first, last, step = (float(a) for a in (start, limit, delta))
        count = max(0, int(np.ceil((last - first) / step)))
        return (first + step * torch.arange(count, dtype=torch.float64)).to(dtype)
    return torch.arange(int(start), int(limit), int(delta), dtype=dtype)


@converter("EyeLike")
def _eye(x: Tensor, *, dtype: int | None = None, k: int = 0, node: Node) -> Tensor:
    rows, columns = x.shape
    wanted = x.dtype if dtype is None else dtype_of(dtype, node.place)
    places = torch.arange(columns)[None] - torch.arange(rows)[:, None]
    return (places == k).to(wanted)


@converter("Trilu")
def _triangle(x: Tensor, k: Tensor | None = None, *, upper: int = 1) -> Tensor:
    rows, columns = x.shape[-2:]
    shift: Any = 0 if k is None else k.reshape(())
    places = torch.arange(columns)[None] - torch.arange(rows)[:, None]
    kept = places >= shift if upper else places <= shift
    return torch.where(kept, x, torch.zeros_like(x))
