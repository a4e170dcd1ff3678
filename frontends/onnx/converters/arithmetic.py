"""Element-wise arithmetic."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.known import Known
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter
from tvm_sparse.frontends.onnx.scope import Value, as_tensor

_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "Abs": torch.abs,
    "Acos": torch.acos,
    "Acosh": torch.acosh,
    "Asin": torch.asin,
    "Asinh": torch.asinh,
    "Atan": torch.atan,
    "Atanh": torch.atanh,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Cosh": torch.cosh,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "IsNaN": torch.isnan,
    "Log": torch.log,
    "Neg": torch.neg,
    "Reciprocal": torch.reciprocal,
    "Round": torch.round,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Sinh": torch.sinh,
    "Sqrt": torch.sqrt,
    "Tan": torch.tan,
    "Tanh": torch.tanh,
}

_BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Add": torch.add,
    "Sub": torch.sub,
    "Mul": torch.mul,
    "And": torch.logical_and,
    "Or": torch.logical_or,
    "Xor": torch.logical_xor,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "BitwiseAnd": torch.bitwise_and,
    "BitwiseOr": torch.bitwise_or,
    "BitwiseXor": torch.bitwise_xor,
}

_VARIADIC: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Max": torch.maximum,
    "Min": torch.minimum,
    "Sum": torch.add,
}


def _enter_unary(operator: str, function: Callable[[Tensor], Tensor]) -> None:
    @converter(operator)
    def convert(x: Tensor) -> Tensor:
        return function(x)


def _enter_binary(operator: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @converter(operator)
    def convert(a: Tensor, b: Tensor) -> Tensor:
        return function(a, b)


def _enter_variadic(operator: str, function: Callable[[Tensor, Tensor], Tensor]) -> None:
    @converter(operator)
    def convert(*operands: Tensor) -> Tensor:
        return functools.reduce(function, operands)


for _operator, _function in _UNARY.items():
    _enter_unary(_operator, _function)
for _operator, _two in _BINARY.items():
    _enter_binary(_operator, _two)
for _operator, _two in _VARIADIC.items():
    _enter_variadic(_operator, _two)


@converter("Not")
def _not(x: Tensor) -> Tensor:
    return torch.logical_not(x)


@converter("BitwiseNot")
def _bitwise_not(x: Tensor) -> Tensor:
    return torch.bitwise_not(x)


@converter("Mean")
def _mean(*xs: Tensor) -> Tensor:
    return functools.reduce(torch.add, xs) / len(xs)


@converter("Div")
def _divide(a: Tensor, b: Tensor) -> Tensor:
    """Integers are divided towards zero."""
    if a.is_floating_point():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


@converter("Mod")
def _modulo(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """``fmod`` takes the sign of ``a``, the other the sign of ``b``."""
    rest = torch.fmod(a, b)
    if fmod:
        return rest
    # Integers alone: torch has its own rule for a float of infinite size.
    if not a.is_floating_point():
        return torch.remainder(a, b)
    return torch.where((rest != 0) & torch.logical_xor(rest < 0, b < 0), rest + b, rest)


@converter("Pow", raw=True)
def _power(a: Value, b: Value, *, node: Node) -> Tensor:
    """Return ``a ** b`` of the type of ``a``; squares and cubes are products."""
    base, exponent = as_tensor(a, node.place), as_tensor(b, node.place)
    assert base is not None and exponent is not None
    if isinstance(b, Known) and base.is_floating_point():
        array = b.array
        if array.size == 1 and array.ndim <= base.dim() and array.item() in (2, 3):
            return torch.pow(base, int(array.item()))
    if base.is_floating_point() and exponent.dtype == base.dtype:
        return torch.pow(base, exponent)
    if base.is_floating_point() or exponent.is_floating_point():
        # In double precision, so that an integer is rounded or cut once.
        return torch.pow(base.double(), exponent.double()).to(base.dtype)
    return torch.pow(base, exponent).to(base.dtype)


@converter("Clip", since=11)
def _clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    if low is not None:
        x = torch.maximum(x, low)
    return x if high is None else torch.minimum(x, high)


@converter("Clip")
def _clip_attributes(x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    return x if min is None and max is None else torch.clamp(x, min, max)


@converter("IsInf")
def _is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    if detect_negative and detect_positive:
        return torch.isinf(x)
    if not (detect_negative or detect_positive):
        return torch.zeros_like(x, dtype=torch.bool)
    return x == (torch.inf if detect_positive else -torch.inf)


@converter("BitShift")
def _shift(x: Tensor, places: Tensor, *, direction: str, node: Node) -> Tensor:
    """Shift; by the width or more, or backwards, nothing but the sign is left."""
    if direction not in ("LEFT", "RIGHT"):
        raise node.unsound(f"direction '{direction}'", "LEFT or RIGHT")
    width = torch.iinfo(x.dtype).bits
    wide = (places < 0) | (places >= width)
    few = torch.where(wide, torch.zeros_like(places), places)
    if direction == "LEFT":
        return torch.where(wide, torch.zeros_like(x), x << few)
    rest = torch.where(x < 0, torch.full_like(x, -1 if x.dtype.is_signed else 0), x * 0)
    return torch.where(wide, rest, x >> few)


@converter("Det")
def _determinant(x: Tensor) -> Tensor:
    """Return the determinant by Laplace's expansion, which suits small matrices only."""
    size = x.shape[-1]
    if size == 1:
        return x[..., 0, 0]
    columns = [[c for c in range(size) if c != drop] for drop in range(size)]
    terms = [
        x[..., 0, i] * _determinant(torch.stack([x[..., 1:, c] for c in kept], -1)) * (-1) ** i
        for i, kept in enumerate(columns)
    ]
    return functools.reduce(torch.add, terms)


def scalar(x: Tensor, value: Any) -> Tensor:
    """Return ``value`` as a tensor without axes and of the type of ``x``."""
    return torch.full((), value, dtype=x.dtype, device=x.device)
