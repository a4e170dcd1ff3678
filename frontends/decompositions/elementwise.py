"""Functions of single elements that TVM's importer does not know, or loses precision in."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule
from tvm_sparse.ops.linalg.polynomials import RECURRENCES


@rule(aten.sinh.default)
def _sinh(x: Tensor) -> Tensor:
    grown = torch.expm1(x.abs())
    small = (grown + grown / (grown + 1)) / 2
    half = torch.exp(x.abs() / 2)
    return torch.where(x.abs() < 80, small, half / 2 * half).copysign(x)


@rule(aten.cosh.default)
def _cosh(x: Tensor) -> Tensor:
    half = torch.exp(x.abs() / 2)
    return half / 2 * half + torch.exp(-x.abs()) / 2


@rule(aten.signbit.default)
def _signbit(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        return x < 0 if x.dtype != torch.bool else torch.zeros_like(x)
    return (x < 0) | ((x == 0) & (torch.reciprocal(x) < 0))


@rule(aten.copysign.Tensor, aten.copysign.Scalar)
def _copysign(x: Tensor, other: Any) -> Tensor:
    dtype = torch.result_type(x, other)
    dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
    size = x.to(dtype).abs()
    if not isinstance(other, Tensor):
        return -size if math.copysign(1, other) < 0 else size
    return torch.where(torch.signbit(other), -size, size)


@rule(aten.exp2.default)
def _exp2(x: Tensor) -> Tensor:
    return torch.pow(2.0, x)


@rule(aten.fmax.default)
def _fmax(x: Tensor, other: Tensor) -> Tensor:
    return _over_nan(x, other, torch.maximum)


@rule(aten.fmin.default)
def _fmin(x: Tensor, other: Tensor) -> Tensor:
    return _over_nan(x, other, torch.minimum)


def _over_nan(x: Tensor, other: Tensor, choose: Any) -> Tensor:
    """Return ``choose(x, other)``, where one is NaN the other."""
    dtype = torch.result_type(x, other)
    x, other = x.to(dtype), other.to(dtype)
    if not dtype.is_floating_point:
        return choose(x, other)
    found = torch.where(torch.isnan(other), x, choose(x, other))
    return torch.where(torch.isnan(x), other, found)


@rule(aten.hypot.default)
def _hypot(x: Tensor, other: Tensor) -> Tensor:
    dtype = torch.result_type(x, other)
    x, other = x.to(dtype).abs(), other.to(dtype).abs()
    large, small = torch.maximum(x, other), torch.minimum(x, other)
    ratio = torch.where(small == large, 1.0, small / large)
    found = torch.where(large == 0, large, large * torch.sqrt(1 + ratio * ratio))
    return torch.where(torch.isinf(x) | torch.isinf(other), math.inf, found)


@rule(aten.ldexp.Tensor)
def _ldexp(x: Tensor, other: Tensor) -> Tensor:
    return x * torch.pow(2.0, other)


@rule(aten.angle.default)
def _angle(x: Tensor) -> Tensor:
    zero = torch.zeros_like(x, dtype=x.dtype if x.is_floating_point() else torch.float32)
    found = torch.where(x < 0, math.pi, zero)
    return torch.where(torch.isnan(x), x, found) if x.is_floating_point() else found


@rule(aten.pow.Tensor_Scalar)
def _power_number(x: Tensor, exponent: Any) -> Any:
    if not isinstance(exponent, int | float):
        return NotImplemented  # a number that is read out of a tensor
    if exponent == 0.5 and x.is_floating_point():
        return torch.sqrt(x)  # not the power at minus infinity
    if exponent == -0.5 and x.dtype in (torch.float32, torch.float64):
        return torch.rsqrt(x)  # nor that of minus zero
    if exponent in (2, 3) and x.dtype in (torch.float32, torch.float64):
        return x * x if exponent == 2 else x * x * x  # as PyTorch does it
    if x.is_floating_point() or not isinstance(exponent, int) or exponent < 0:
        return NotImplemented
    result, factor = torch.ones_like(x, dtype=torch.result_type(x, exponent)), x
    while exponent:
        result = result * factor if exponent % 2 else result
        factor, exponent = factor * factor, exponent // 2
    return result


@rule(aten.pow.Scalar)
def _number_power(x: Any, exponent: Tensor) -> Any:
    dtype = torch.result_type(x, exponent)
    if dtype.is_floating_point:
        return NotImplemented
    return aten.pow.Tensor_Tensor(torch.full((), x, dtype=dtype), exponent.to(dtype))


@rule(aten.__lshift__.Scalar, aten.bitwise_left_shift.Tensor_Scalar)
def _left_shift(x: Tensor, places: int) -> Tensor:
    return aten.bitwise_left_shift.Tensor(x, torch.full((), places, dtype=x.dtype))


@rule(aten.__rshift__.Scalar, aten.bitwise_right_shift.Tensor_Scalar)
def _right_shift(x: Tensor, places: int) -> Tensor:
    return aten.bitwise_right_shift.Tensor(x, torch.full((), places, dtype=x.dtype))


@rule(aten.clamp.Tensor)
def _clamp(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    for bound, choose in ((low, torch.maximum), (high, torch.minimum)):
        if bound is not None:
            dtype = torch.result_type(x, bound)
            x = choose(x.to(dtype), bound.to(dtype))
    return x


@rule(aten.clamp_min.Tensor)
def _at_least(x: Tensor, low: Tensor) -> Tensor:
    return _clamp(x, low)


@rule(aten.clamp_max.Tensor)
def _at_most(x: Tensor, high: Tensor) -> Tensor:
    return _clamp(x, None, high)


@rule(aten.heaviside.default)
def _heaviside(x: Tensor, values: Tensor) -> Tensor:
    return torch.where(x == 0, values, (x > 0).to(values.dtype))


def _polynomials() -> None:
    """Let degrees and points that are numbers be tensors."""
    for name in RECURRENCES:
        packet = getattr(aten, f"special_{name}")

        def of_number(x: Any, degree: Any, packet: Any = packet) -> Tensor:
            kept = (x if isinstance(x, Tensor) else degree).dtype
            kept = kept if kept.is_floating_point else torch.get_default_dtype()
            x, degree = (
                v if isinstance(v, Tensor) else torch.full((), v, dtype=torch.float64)
                for v in (x, degree)
            )
            return packet.default(x, degree).to(kept)

        rule(packet.x_scalar, packet.n_scalar)(of_number)


_polynomials()
