"""Transposed convolutions that TVM has no operator for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from tvm_sparse.frontends.converters.axes import for_each_axis
from tvm_sparse.frontends.decompositions.table import aten, rule


@rule(aten.convolution.default)
def _convolution(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """Write a transposed one as a plain one over zeros between the elements, its taps turned.

    This is done for whole numbers, and for more output padding than a stride.
    """
    rank = x.dim() - 2
    lists = (stride, padding, dilation, output_padding)
    steps, before, apart, extra = (for_each_axis(v, rank) for v in lists)
    beyond = any(e >= s for e, s in zip(extra, steps, strict=True))
    if not transposed or (x.is_floating_point() and not beyond):
        return NotImplemented
    borders: list[int] = []
    for axis in reversed(range(rank)):
        taps = weight.shape[2 + axis]
        border = apart[axis] * (taps - 1) - before[axis]
        borders += [border, border + extra[axis]]
        x = _spread(x, 2 + axis, steps[axis])
    turned = weight.flip(tuple(range(2, weight.dim()))).unflatten(0, (groups, -1))
    turned = turned.transpose(1, 2).flatten(0, 1)
    ones, none = [1] * rank, [0] * rank
    return aten.convolution.default(
        pad(x, borders), turned, bias, ones, none, apart, False, none, groups
    )


def _spread(x: Tensor, axis: int, step: int) -> Tensor:
    """Return ``x`` with ``step - 1`` zeros between the elements along ``axis``."""
    if step == 1:
        return x
    count = (x.shape[axis] - 1) * step + 1
    wide = x.movedim(axis, -1).unsqueeze(-1)
    return pad(wide, (0, step - 1)).flatten(-2).narrow(-1, 0, count).movedim(-1, axis)
