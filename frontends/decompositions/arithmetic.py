"""Element-wise operators and their further arguments (``alpha``, ``scale``, rounding modes)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.add.Tensor, aten.add.Scalar)
def _add(x: Any, other: Any, alpha: float = 1) -> Any:
    return NotImplemented if alpha == 1 else torch.add(*_scaled(x, other, alpha))


@rule(aten.sub.Tensor, aten.sub.Scalar)
def _subtract(x: Any, other: Any, alpha: float = 1) -> Any:
    return NotImplemented if alpha == 1 else torch.sub(*_scaled(x, other, alpha))


@rule(aten.rsub.Tensor, aten.rsub.Scalar)
def _subtract_from(x: Tensor, other: Any, alpha: float = 1) -> Any:
    return torch.sub(other, x) if alpha == 1 else torch.sub(*_scaled(other, x, alpha))


def _scaled(x: Any, other: Any, alpha: float) -> tuple[Tensor, Tensor]:
    """Return ``x`` and ``other * alpha`` in the type of ``x + other``: the factor's counts not."""
    dtype = torch.result_type(x, other)
    return _tensor(x, dtype), (_tensor(other, dtype) * alpha).to(dtype)


@rule(aten.div.Tensor, aten.div.Tensor_mode)
def _divide(x: Any, other: Any, *, rounding_mode: str | None = None) -> Any:
    if isinstance(x, Tensor) and (isinstance(other, Tensor) or rounding_mode is None):
        return NotImplemented
    # A number would be imported as int32 or float32, whatever it divides or is divided by.
    dtype = torch.result_type(x, other)
    if rounding_mode is None and not (dtype.is_floating_point or dtype.is_complex):
        dtype = torch.get_default_dtype()
    return torch.div(_tensor(x, dtype), _tensor(other, dtype), rounding_mode=rounding_mode)


def _tensor(x: Any, dtype: torch.dtype) -> Tensor:
    """Return a tensor or a number as a tensor of ``dtype``."""
    return x.to(dtype) if isinstance(x, Tensor) else torch.full((), x, dtype=dtype)


_LEFT_NUMBERS = (
    *(aten.remainder, aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor),
    *(aten.bitwise_left_shift, aten.bitwise_right_shift),
)
"""Operators with a form whose left operand is a number."""


def _enter_left_number(operator: Any) -> None:
    @rule(operator.Scalar_Tensor)
    def of_number(x: Any, y: Tensor) -> Tensor:
        dtype = torch.result_type(x, y)
        return operator.Tensor(_tensor(x, dtype), _tensor(y, dtype))


for _operator in _LEFT_NUMBERS:
    _enter_left_number(_operator)
