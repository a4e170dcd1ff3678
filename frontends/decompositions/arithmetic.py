"""Element-wise operators and their further arguments (``alpha``, ``scale``, rounding modes)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.add.Tensor, aten.add.Scalar)
def _add(x: Any, other: Any, alpha: float = 1) -> Any:
    return NotImplemented if alpha == 1 else x + other * alpha


@rule(aten.sub.Tensor, aten.sub.Scalar)
def _subtract(x: Any, other: Any, alpha: float = 1) -> Any:
    return NotImplemented if alpha == 1 else x - other * alpha


@rule(aten.rsub.Tensor, aten.rsub.Scalar)
def _subtract_from(x: Tensor, other: Any, alpha: float = 1) -> Any:
    return torch.sub(other, x if alpha == 1 else x * alpha)


@rule(aten.div.Tensor_mode)
def _divide(x: Tensor, other: Any, *, rounding_mode: str | None = None) -> Any:
    if isinstance(other, Tensor) or rounding_mode is None:
        return NotImplemented
    # A number would be imported as int32 or float32, whatever it divides.
    dtype = torch.result_type(x, other)
    number = torch.full((), other, dtype=dtype, device=x.device)
    return torch.div(x.to(dtype), number, rounding_mode=rounding_mode)


@rule(aten.remainder.Scalar_Tensor)
def _remainder_of_number(x: Any, y: Tensor) -> Any:
    return torch.remainder(torch.full_like(y, x, dtype=torch.result_type(x, y)), y)
