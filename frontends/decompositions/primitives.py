"""PyTorch's primitive operators, which its decompositions end in, as ordinary ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule

prims = torch.ops.prims

_SAME = {
    **{name: f"{name}.default" for name in ("abs", "acos", "acosh", "asin", "asinh", "atan")},
    **{name: f"{name}.default" for name in ("atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: f"{name}.default" for name in ("ceil", "floor", "trunc", "round", "exp", "exp2")},
    **{name: f"{name}.default" for name in ("expm1", "log", "log1p", "log2", "log10", "lgamma")},
    **{name: f"{name}.default" for name in ("digamma", "erf", "erfc", "neg", "reciprocal")},
    **{name: f"{name}.default" for name in ("sign", "signbit", "sqrt", "rsqrt", "isfinite")},
    **{name: f"{name}.default" for name in ("atan2", "hypot", "fmax", "fmin", "maximum")},
    **{name: f"{name}.default" for name in ("minimum", "gcd", "bitwise_not", "clone")},
    **{name: f"{name}.Tensor" for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "sub")},
    **{name: f"{name}.Tensor" for name in ("mul", "fmod", "remainder", "bitwise_and")},
    **{name: f"{name}.Tensor" for name in ("bitwise_or", "bitwise_xor")},
    "bessel_i0": "i0.default",
    "bessel_i0e": "special_i0e.default",
    "bessel_i1": "special_i1.default",
    "bessel_i1e": "special_i1e.default",
    "bessel_j0": "special_bessel_j0.default",
    "bessel_j1": "special_bessel_j1.default",
    "erf_inv": "erfinv.default",
    "erfcx": "special_erfcx.default",
    "ndtri": "special_ndtri.default",
    "spherical_bessel_j0": "special_spherical_bessel_j0.default",
    "zeta": "special_zeta.default",
    "pow": "pow.Tensor_Tensor",
    "shift_left": "bitwise_left_shift.Tensor",
    "shift_right_arithmetic": "bitwise_right_shift.Tensor",
    "where": "where.self",
    "cat": "cat.default",
    "transpose": "permute.default",
    "reshape": "reshape.default",
    "rev": "flip.default",
    "squeeze": "squeeze.dims",
}
"""Primitives that are an ordinary operator under another name."""


def _register() -> None:
    for name, ordinary in _SAME.items():
        packet, overload = ordinary.split(".")
        operator = getattr(getattr(aten, packet), overload)
        rule(getattr(prims, name).default)(operator)


_register()


@rule(prims.div.default)
def _divide(x: Tensor, y: Tensor) -> Tensor:
    """Divide; the quotient of integers is cut."""
    return x / y if x.is_floating_point() else torch.div(x, y, rounding_mode="trunc")


@rule(prims.convert_element_type.default)
def _convert(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype)


@rule(prims.device_put.default)
def _move(x: Tensor, *_: Any) -> Tensor:
    return x


@rule(prims.broadcast_in_dim.default)
def _broadcast(x: Tensor, shape: Sequence[int], dims: Sequence[int]) -> Tensor:
    view = [1] * len(shape)
    for axis, place in enumerate(dims):
        view[place] = x.shape[axis]
    return x.reshape(view).expand(tuple(shape))


@rule(prims.amax.default)
def _largest(x: Tensor, dims: Sequence[int]) -> Tensor:
    return torch.amax(x, tuple(dims)) if len(dims) else x


@rule(prims.amin.default)
def _smallest(x: Tensor, dims: Sequence[int]) -> Tensor:
    return torch.amin(x, tuple(dims)) if len(dims) else x


@rule(prims.sum.default)
def _sum(x: Tensor, dims: Sequence[int], *, output_dtype: torch.dtype | None = None) -> Tensor:
    return torch.sum(x, tuple(dims), dtype=output_dtype or x.dtype) if len(dims) else x


@rule(prims.prod.default)
def _product(x: Tensor, dims: Sequence[int], *, output_dtype: torch.dtype | None = None) -> Tensor:
    for axis in sorted(dims, reverse=True):
        x = torch.prod(x, axis, dtype=output_dtype or x.dtype)
    return x


@rule(prims.var.default)
def _variance(x: Tensor, dims: Sequence[int], correction: float = 1, **_: Any) -> Tensor:
    return torch.var(x, tuple(dims), correction=correction)


@rule(prims.iota.default)
def _iota(
    length: int, *, start: int, step: int, dtype: torch.dtype, device: Any, requires_grad: bool
) -> Tensor:
    return torch.arange(start, start + length * step, step, dtype=dtype, device=device)


@rule(prims.empty_strided.default)
def _empty(shape: Sequence[int], stride: Sequence[int], *, dtype: torch.dtype, **_: Any) -> Tensor:
    return torch.zeros(tuple(shape), dtype=dtype)


@rule(aten.empty.memory_format, aten.empty_permuted.default)
def _open_room(size: Sequence[Any], *_: Any, dtype: torch.dtype | None = None, **__: Any) -> Any:
    """Fill what has an open extent with zeros: the importer makes no number of it."""
    if all(isinstance(extent, int) for extent in size):
        return NotImplemented
    return torch.full(size, 0, dtype=dtype or torch.get_default_dtype())


@rule(aten.arange.start_step)
def _steps(start: Any, end: Any, step: Any = 1, *, dtype: Any = None, **_: Any) -> Any:
    """TVM counts the elements of a negative, broken or open step wrongly, or in floats."""
    if not isinstance(step, int | float | torch.SymInt):
        return NotImplemented
    whole = all(isinstance(v, int | torch.SymInt) for v in (start, end, step))
    fixed = not any(isinstance(v, torch.SymInt) for v in (start, end, step))
    if (whole or fixed) and isinstance(step, int | float) and step == 1:
        return NotImplemented
    dtype = dtype or (torch.int64 if whole else torch.get_default_dtype())
    start, end, step = (
        int(v) if isinstance(v, float) and v.is_integer() else v for v in (start, end, step)
    )
    whole = all(isinstance(v, int | torch.SymInt) for v in (start, end, step))
    places = torch.arange(_count(start, end, step) if whole else _counted(start, end, step))
    wide = places if whole else places.to(torch.float64)
    return (wide * step + start).to(dtype)


_MOST = 1 << 12
"""Largest divisor of ends and steps whose quotients are whole numbers where PyTorch's are."""


def _ratio(value: Any) -> tuple[Any, int]:
    """Return a number as a quotient of whole ones; the divisor of an unknown one is zero."""
    if isinstance(value, int | torch.SymInt):
        return value, 1
    return value.as_integer_ratio() if isinstance(value, float) else (0, 0)


def _count(start: Any, end: Any, step: Any) -> Any:
    """Return how many whole steps there are before ``end``."""
    span, size = (end - start, step) if step > 0 else (start - end, -step)
    count = (span + size - 1) // size
    return max(0, count) if isinstance(count, int) else count


def _counted(start: Any, end: Any, step: float) -> Any:
    """Return how many steps there are before ``end``, of real numbers.

    With an open extent it is a quotient of whole numbers: of 0.25, ``n`` and 0.5 ``4 * n // 2``.
    """
    if any(isinstance(v, torch.SymInt) for v in (start, end)):
        ratios = [_ratio(v) for v in (start, end, step)]
        under = math.lcm(*(ratio[1] for ratio in ratios))
        if 0 < under <= _MOST:
            return _count(*(over * (under // own) for over, own in ratios))
    count = torch.sym_int(math.ceil((end - start) / step))
    return max(0, count) if isinstance(count, int) else count
