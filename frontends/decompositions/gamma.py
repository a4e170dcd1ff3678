"""The gamma and error functions and what is made of them, in float64 inside."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule

_SHIFT = 8
"""Asymptotic series are taken this far to the right."""


def wide(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let ``function`` of a tensor work in float64, and round its result."""

    def rounded(x: Tensor, *args: Any) -> Tensor:
        dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
        return function(x.to(torch.float64), *args).to(dtype)

    return rounded


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """Return the polynomial in ``x``, highest power first."""
    total = torch.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


@rule(aten.lgamma.default)
@wide
def _lgamma(x: Tensor) -> Tensor:
    """Stirling's series; on the left by reflection."""
    mirrored = torch.where(x < 0.5, 1 - x, x)
    shifted, product = mirrored + _SHIFT, torch.ones_like(x)
    for i in range(_SHIFT):
        product = product * (mirrored + i)
    inverse = 1 / shifted
    series = polynomial(inverse * inverse, [-1 / 1680, 1 / 1260, -1 / 360, 1 / 12]) * inverse
    stirling = (shifted - 0.5) * torch.log(shifted) - shifted + math.log(2 * math.pi) / 2 + series
    right = stirling - torch.log(product)
    huge = (mirrored - 0.5) * torch.log(mirrored) - mirrored + math.log(2 * math.pi) / 2
    right = torch.where(mirrored > 1e15, huge, right)
    right = torch.where(torch.isinf(x), math.inf, right)
    sine = torch.sin(math.pi * (x - torch.floor(x))).abs()
    left = math.log(math.pi) - torch.log(sine) - right
    left = torch.where(x == torch.floor(x), math.inf, left)
    found = torch.where(x < 0.5, left, right)
    return torch.where(x == -math.inf, math.inf, found)


@rule(aten.digamma.default)
@wide
def digamma(x: Tensor) -> Tensor:
    """Asymptotic series; on the left by reflection."""
    mirrored = torch.where(x < 0.5, 1 - x, x)
    steps = torch.zeros_like(x)
    for i in range(_SHIFT):
        steps = steps + 1 / (mirrored + i)
    shifted = mirrored + _SHIFT
    square = 1 / (shifted * shifted)
    series = polynomial(square, [1 / 240, -1 / 252, 1 / 120, -1 / 12]) * square
    right = torch.log(shifted) - 0.5 / shifted + series - steps
    turn = math.pi * (x - torch.floor(x))
    left = right - math.pi * torch.cos(turn) / torch.sin(turn)
    left = torch.where(x == torch.floor(x), math.nan, left)
    found = torch.where(x < 0.5, left, right)
    found = torch.where(x == 0, -math.inf * torch.ones_like(x).copysign(x), found)
    return torch.where(x == math.inf, math.inf, found)


@rule(aten.polygamma.default)
def _polygamma(n: int, x: Tensor) -> Any:
    if n < 2:
        return _trigamma(x) if n else torch.digamma(x)
    factor = (-1) ** (n + 1) * math.factorial(n)
    dtype = x.dtype if x.is_floating_point() else torch.get_default_dtype()
    point = x.to(torch.float64)
    return (torch.special.zeta(torch.full_like(point, n + 1), point) * factor).to(dtype)


@wide
def _trigamma(x: Tensor) -> Tensor:
    mirrored = torch.where(x < 0.5, 1 - x, x)
    steps = torch.zeros_like(x)
    for i in range(_SHIFT):
        steps = steps + 1 / ((mirrored + i) * (mirrored + i))
    inverse = 1 / (mirrored + _SHIFT)
    square = inverse * inverse
    series = polynomial(square, [-1 / 30, 1 / 42, -1 / 30, 1 / 6, 1]) * inverse
    right = series + square / 2 + steps
    sine = torch.sin(math.pi * (x - torch.floor(x)))
    left = math.pi**2 / (sine * sine) - right
    left = torch.where(x == torch.floor(x), math.inf, left)
    return torch.where(x < 0.5, left, right)


_ERFC = [
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806),
    *(0.09678418, 0.37409196, 1.00002368, -1.26551223),
]
"""Numerical Recipes, 6.2: relative error below 1.2e-7 everywhere."""


def _scaled_tail(size: Tensor) -> Tensor:
    """``exp(z * z) * erfc(z)`` for ``z >= 0``."""
    t = 1 / (1 + size / 2)
    return t * torch.exp(polynomial(t, _ERFC))


@rule(aten.erfc.default)
@wide
def _erfc(x: Tensor) -> Tensor:
    size = x.abs()
    tail = _scaled_tail(size) * torch.exp(-size * size)
    return torch.where(x < 0, 2 - tail, tail)


@rule(aten.special_erfcx.default)
@wide
def _erfcx(x: Tensor) -> Tensor:
    tail = _scaled_tail(x.abs())
    return torch.where(x < 0, 2 * torch.exp(x * x) - tail, tail)


_CENTRE = [
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
]
_TAIL = [
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
]
"""M. Giles, Approximating the erfinv function, GPU Computing Gems 2, 2010: single precision."""


def _inverse_error(x: Tensor, complement: Tensor) -> Tensor:
    """Return ``erfinv(x)``; ``complement`` is ``(1 - x) * (1 + x)``."""
    w = -torch.log(complement)
    centre = polynomial(w - 2.5, _CENTRE)
    tail = polynomial(torch.sqrt(w.clamp(min=5)) - 3, _TAIL)
    found = torch.where(w < 5, centre, tail) * x
    found = torch.where(x.abs() == 1, x * math.inf, found)
    return torch.where(x.abs() > 1, math.nan, found)


@rule(aten.erfinv.default)
@wide
def _erfinv(x: Tensor) -> Tensor:
    return _inverse_error(x, (1 - x) * (1 + x))


@rule(aten.special_ndtri.default)
@wide
def _ndtri(p: Tensor) -> Tensor:
    return math.sqrt(2) * _inverse_error(2 * p - 1, 4 * p * (1 - p))


@rule(aten.special_zeta.default)
def _zeta(x: Tensor, first: Tensor) -> Any:
    return NotImplemented


@rule(aten.special_zeta.other_scalar)
def _zeta_from_number(x: Tensor, first: Any) -> Tensor:
    return torch.special.zeta(x, torch.full((), first, dtype=torch.float64)).to(x.dtype)


@rule(aten.special_zeta.self_scalar)
def _zeta_of_number(x: Any, first: Tensor) -> Tensor:
    return torch.special.zeta(torch.full((), x, dtype=torch.float64), first).to(first.dtype)
