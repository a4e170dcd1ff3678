"""Functions of exponentials that keep their relative precision at small arguments."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule

_SMALL = 0.35
_TAYLOR = tuple(1 / math.factorial(k) for k in range(14, 1, -1))
"""Of ``(exp(x) - 1 - x) / x^2``, highest power first: its remainder is 1e-18 at ``_SMALL``."""
_SINGLE = 6
"""Of these the last ones, for single precision: their remainder is 2e-8."""
_ONE = 20
"""Where ``tanh(softplus(x))`` is one, in double precision too."""


@rule(aten.expm1.default)
def _expm1(x: Tensor) -> Any:
    x = _floating(x)
    first, *rest = _TAYLOR if x.dtype == torch.float64 else _TAYLOR[-_SINGLE:]
    tail: Any = first
    for coefficient in rest:
        tail = x * tail + coefficient
    return torch.where(x.abs() < _SMALL, x + x * x * tail, torch.exp(x) - 1)


@rule(aten.log1p.default)
def _log1p(x: Tensor) -> Any:
    """Correct ``log(u)``, ``u = 1 + x`` rounded, by ``x / (u - 1)`` (Kahan)."""
    x = _floating(x)
    u = 1 + x
    corrected = torch.log(u) * (x / torch.where(u == 1, 1.0, u - 1))
    return torch.where(u == 1, x, torch.where(x.abs() < 1, corrected, torch.log(u)))


@rule(aten.elu.default)
def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    negative = torch.expm1(x if input_scale == 1 else x * input_scale) * (alpha * scale)
    return torch.where(x > 0, x if scale == 1 else x * scale, negative)


@rule(aten.softplus.default)
def _softplus(x: Tensor, beta: float = 1, threshold: float = 20) -> Any:
    scaled = x * beta
    return torch.where(scaled > threshold, x, torch.log1p(torch.exp(scaled)) / beta)


@rule(aten.mish.default)
def _mish(x: Tensor) -> Any:
    """``tanh(log(1 + e)) = n / (n + 2)``, ``n = e (e + 2)``: one exponential, no logarithm."""
    wide = x.float() if torch.finfo(x.dtype).bits < 32 else x  # n is infinite in halves
    e = torch.exp(wide.clamp(max=_ONE))
    n = e * (e + 2)
    return (wide * (n / (n + 2))).to(x.dtype)


def _floating(x: Tensor) -> Tensor:
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


@rule(aten.polar.default)
def _polar(size: Tensor, angle: Tensor) -> Tensor:
    return torch.complex(size * torch.cos(angle), size * torch.sin(angle))


@rule(aten.angle.default)
def _angle(x: Tensor) -> Any:
    if x.is_complex():
        return NotImplemented
    real = x if x.is_floating_point() else x.to(torch.get_default_dtype())
    half = torch.where(real < 0, torch.full_like(real, math.pi), torch.zeros_like(real))
    return torch.where(torch.isnan(real), real, half)
