"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.avg_pool2d.default)
def _average(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    if divisor_override is None:
        return NotImplemented
    if ceil_mode:
        raise UnsupportedError("avg_pool2d", "divisor_override with ceil_mode", "one of them")
    area = kernel[0] * kernel[-1]
    return aten.avg_pool2d(x, kernel, stride, padding) * (area / divisor_override)
