"""Bessel functions: power series near zero, asymptotic series far out, in float64 inside."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.gamma import polynomial, wide
from tvm_sparse.frontends.decompositions.table import aten, rule

_FAR = 14.0
"""From here on the asymptotic series are exact to float32, below the power series are."""

_TERMS = 50
_EULER = 0.57721566490153286


def _power_series(order: int, square: Tensor, weights: Callable[[int], float]) -> Tensor:
    """Return the sum of ``weights(k) * square^k / (k! (k + order)!)``."""
    terms = [weights(k) / (math.factorial(k) * math.factorial(k + order)) for k in range(_TERMS)]
    return polynomial(square, terms[::-1])


def _asymptotic(order: int) -> list[float]:
    """Return the coefficients ``a_k`` of the asymptotic series (DLMF 10.17.1), 16 of them."""
    found = [1.0]
    for k in range(1, 16):
        found.append(found[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (k * 8))
    return found


def _near(size: Tensor) -> Tensor:
    return size.clamp(max=_FAR)


def _growing(x: Tensor, order: int, scaled: bool) -> Tensor:
    """Return ``I_order(x)``, ``scaled`` by ``exp(-|x|)``."""
    size = x.abs()
    near = _near(size)
    series = _power_series(order, near * near / 4, lambda _: 1.0) * (near / 2) ** order
    inverse = 1 / size.clamp(min=_FAR)
    signed = [a * (-1) ** k for k, a in enumerate(_asymptotic(order))]
    far = polynomial(inverse, signed[::-1]) * torch.sqrt(inverse / (2 * math.pi))
    if scaled:
        series = series * torch.exp(-near)
    else:
        far = far * torch.exp(size)
    found = torch.where(size < _FAR, series, far)
    return torch.where(x < 0, -found, found) if order else found


for _order, _scaled, _operators in (
    (0, False, (aten.i0.default, aten.special_modified_bessel_i0.default)),
    (0, True, (aten.special_i0e.default,)),
    (1, False, (aten.special_i1.default, aten.special_modified_bessel_i1.default)),
    (1, True, (aten.special_i1e.default,)),
):
    rule(*_operators)(wide(lambda x, order=_order, scaled=_scaled: _growing(x, order, scaled)))


def _waves(size: Tensor, order: int) -> tuple[Tensor, Tensor]:
    """Return the asymptotic ``J`` and ``Y`` of ``order`` (DLMF 10.17.3)."""
    inverse = 1 / size.clamp(min=_FAR)
    a = _asymptotic(order)
    even = [a[k] * (-1) ** (k // 2) for k in range(0, 16, 2)]
    odd = [a[k] * (-1) ** (k // 2) for k in range(1, 16, 2)]
    p = polynomial(inverse * inverse, even[::-1])
    q = polynomial(inverse * inverse, odd[::-1]) * inverse
    phase = size - (order / 2 + 0.25) * math.pi
    scale = torch.sqrt(2 / math.pi * inverse)
    cosine, sine = torch.cos(phase), torch.sin(phase)
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


def _first_kind(x: Tensor, order: int) -> Tensor:
    size = x.abs()
    near = _near(size)
    series = _power_series(order, near * near / 4, lambda k: (-1.0) ** k) * (near / 2) ** order
    found = torch.where(size < _FAR, series, _waves(size, order)[0])
    found = torch.where(torch.isinf(size), 0, found)
    return torch.where(x < 0, -found, found) if order else found


def _harmonic(k: int) -> float:
    return sum(1 / i for i in range(1, k + 1))


def _digammas(order: int, k: int) -> float:
    return _harmonic(k) + _harmonic(k + order) - 2 * _EULER


def _second_kind(x: Tensor, order: int) -> Tensor:
    """Return ``Y_order(x)`` (DLMF 10.8.1)."""
    near = _near(x.clamp(min=0))
    square = near * near / 4
    sums = _power_series(order, square, lambda k: (-1.0) ** k * _digammas(order, k))
    series = 2 * torch.log(near / 2) * _first_kind(near, order) - sums * (near / 2) ** order
    series = (series - order * 2 / near if order else series) / math.pi
    found = torch.where(x < _FAR, series, _waves(x, order)[1])
    found = torch.where(x == 0, -math.inf, found)
    found = torch.where(x == math.inf, 0, found)
    return torch.where(x < 0, math.nan, found)


def _decaying(x: Tensor, order: int, scaled: bool) -> Tensor:
    """Return ``K_order(x)``, ``scaled`` by ``exp(x)`` (DLMF 10.31.1, 10.40.2)."""
    near = x.clamp(0, 9.0)
    square = near * near / 4
    sums = _power_series(order, square, lambda k: _digammas(order, k)) * (near / 2) ** order / 2
    logs = torch.log(near / 2) * _growing(near, order, False)
    series = 1 / near + logs - sums if order else sums - logs
    inverse = 1 / x.clamp(min=9.0)
    far = polynomial(inverse, _asymptotic(order)[::-1]) * torch.sqrt(inverse * math.pi / 2)
    if scaled:
        series = series * torch.exp(near)
    else:
        far = far * torch.exp(-x)
    found = torch.where(x < 9.0, series, far)
    found = torch.where(x == 0, math.inf, found)
    return torch.where(x < 0, math.nan, found)


for _order in (0, 1):
    rule(getattr(aten, f"special_bessel_j{_order}").default)(
        wide(lambda x, order=_order: _first_kind(x, order))
    )
    rule(getattr(aten, f"special_bessel_y{_order}").default)(
        wide(lambda x, order=_order: _second_kind(x, order))
    )
    for _name, _scaled in (("modified", False), ("scaled_modified", True)):
        rule(getattr(aten, f"special_{_name}_bessel_k{_order}").default)(
            wide(lambda x, order=_order, scaled=_scaled: _decaying(x, order, scaled))
        )


@rule(aten.special_spherical_bessel_j0.default)
@wide
def _spherical(x: Tensor) -> Tensor:
    square = x * x
    series = 1 - square / 6 * (1 - square / 20 * (1 - square / 42))
    found = torch.where(x.abs() < 0.5, series, torch.sin(x) / x)
    return torch.where(torch.isinf(x), 0, found)
