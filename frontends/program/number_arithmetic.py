"""Arithmetic of numbers, written with tensors without axes that stand for them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tvm_sparse.frontends.program.number_users import Emit

aten = torch.ops.aten


def _truth(emit: Emit, x: Any) -> Any:
    return emit(aten._to_copy.default, x, dtype=torch.bool)


def _converted(dtype: torch.dtype) -> Callable[..., Any]:
    return lambda emit, x: emit(aten._to_copy.default, x, dtype=dtype)


def _rounded(function: Any) -> Callable[..., Any]:
    def write(emit: Emit, x: Any) -> Any:
        if not x.meta["val"].is_floating_point():
            return x
        return emit(aten._to_copy.default, emit(function, x), dtype=torch.int64)

    return write


def _nearest(emit: Emit, x: Any, digits: Any = None) -> Any:
    """Return the nearest whole number, of two the even one, as Python does."""
    return _rounded(aten.round.default)(emit, x) if digits is None else None


def _binary(function: Any, **named: Any) -> Callable[..., Any]:
    def write(emit: Emit, x: Any, y: Any) -> Any:
        return emit(function, *_tensors(emit, x, y), **named)

    return write


def _divided(emit: Emit, x: Any, y: Any) -> Any:
    parts = _tensors(emit, x, y)
    wide = [emit(aten._to_copy.default, part, dtype=torch.float64) for part in parts]
    return emit(aten.div.Tensor, *wide)


def _tensors(emit: Emit, *values: Any) -> list[Any]:
    """Return tensors without axes; one of the values is one already."""
    like = next(value for value in values if isinstance(value, fx.Node))
    found = [
        value
        if isinstance(value, fx.Node)
        else emit(aten.full_like.default, like, value, dtype=_type(value))
        for value in values
    ]
    wide = any(value.meta["val"].is_floating_point() for value in found)
    if wide:
        found = [emit(aten._to_copy.default, value, dtype=torch.float64) for value in found]
    return found


def _power(emit: Emit, x: Any, y: Any) -> Any:
    """Return whole powers of whole numbers, real ones of all others, as Python does."""
    parts = _tensors(emit, x, y)
    if not isinstance(y, int) or y < 0:
        parts = [emit(aten._to_copy.default, part, dtype=torch.float64) for part in parts]
    return emit(aten.pow.Tensor_Tensor, *parts)


def _real(function: Any) -> Callable[..., Any]:
    return lambda emit, x: emit(function, emit(aten._to_copy.default, x, dtype=torch.float64))


_FUNCTIONS = ("sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2")
"""What PyTorch calls ``_sym_`` and its name, of a number."""

_ARITHMETIC: dict[Any, Callable[..., Any]] = {
    operator.add: _binary(aten.add.Tensor),
    operator.sub: _binary(aten.sub.Tensor),
    operator.mul: _binary(aten.mul.Tensor),
    operator.floordiv: _binary(aten.div.Tensor_mode, rounding_mode="floor"),
    operator.mod: _binary(aten.remainder.Tensor),
    operator.pow: _power,
    operator.truediv: _divided,
    operator.neg: lambda emit, x: emit(aten.neg.default, x),
    operator.eq: _binary(aten.eq.Tensor),
    operator.ne: _binary(aten.ne.Tensor),
    operator.lt: _binary(aten.lt.Tensor),
    operator.le: _binary(aten.le.Tensor),
    operator.gt: _binary(aten.gt.Tensor),
    operator.ge: _binary(aten.ge.Tensor),
    operator.and_: lambda emit, x, y: emit(aten.logical_and.default, *_tensors(emit, x, y)),
    operator.or_: lambda emit, x, y: emit(aten.logical_or.default, *_tensors(emit, x, y)),
    torch.sym_max: _binary(aten.maximum.default),
    torch.sym_min: _binary(aten.minimum.default),
    torch.sym_not: lambda emit, x: emit(aten.logical_not.default, x),
    torch.sym_float: _converted(torch.float64),
    torch.sym_int: _rounded(aten.trunc.default),
    torch.sym_ite: lambda emit, c, x, y: emit(aten.where.self, _truth(emit, c), x, y),
    **{
        getattr(torch, f"_sym_{name}"): _real(getattr(aten, name).default)
        for name in _FUNCTIONS
        if hasattr(torch, f"_sym_{name}")
    },
    math.floor: _rounded(aten.floor.default),
    math.ceil: _rounded(aten.ceil.default),
    math.trunc: _rounded(aten.trunc.default),
    round: _nearest,
}
"""By the operator of numbers: what writes it, of what stands for its operands."""


def computed(emit: Emit, node: fx.Node, args: list[Any]) -> fx.Node | None:
    """Return the tensor that stands for a number that ``node`` computes, None if it has no form.

    ``args`` are its operands: constants, and at least one tensor without axes.
    """
    target: Any = node.target
    write = _ARITHMETIC.get(target)
    if write is None:
        return None
    if target is torch.sym_ite:
        args = [args[0], *_tensors(emit, *args)[1:]]
    result: fx.Node | None = write(emit, *args)
    return result


def _type(number: Any) -> torch.dtype:
    return torch.float64 if isinstance(number, float) else torch.int64
