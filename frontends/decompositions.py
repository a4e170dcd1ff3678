"""How PyTorch operators are taken apart before the import.

Beside PyTorch's core decompositions: products stay whole, attention becomes plain, and uses that
TVM's importer gets wrong without a word (negative indices, ``alpha``, ``scale``, …) are written
with operators that it gets right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.errors import UnsupportedError

aten = torch.ops.aten

_KEPT = (aten.linear.default, aten.matmul.default)
"""Decomposed, a product of more than two axes becomes a batched one, with a copy of the weight
for each batch."""

_RULES: dict[Any, Callable[..., Any]] = {}
"""By operator: a decomposition, or ``NotImplemented`` where the operator can stay as it is."""


def decompositions() -> Any:
    """Return the table for :meth:`torch.export.ExportedProgram.run_decompositions`."""
    table = torch.export.default_decompositions()
    for operator in _KEPT:
        table.pop(operator)
    for operator, rule in _RULES.items():
        table[operator] = rule
    return table


def _rule(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _RULES.update(dict.fromkeys(operators, function))
        return function

    return register


@_rule(aten.scaled_dot_product_attention.default)
def _attention(  # noqa: PLR0917 (the operator's own signature)
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Without a mask no row can be masked entirely, which PyTorch's form checks every score for."""
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # The operator below adds any mask as it is.
        zero = query.new_zeros(())
        attn_mask = torch.where(attn_mask, zero, zero - math.inf)
    if attn_mask is not None or dropout_p or is_causal or enable_gqa:
        return aten._scaled_dot_product_attention_math(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    return torch.softmax((query * factor) @ key.transpose(-2, -1), dim=-1) @ value


@_rule(aten.add.Tensor, aten.add.Scalar)
def _add(x: Any, other: Any, alpha: float = 1) -> Any:
    return NotImplemented if alpha == 1 else x + other * alpha


@_rule(aten.sub.Tensor, aten.sub.Scalar)
def _subtract(x: Any, other: Any, alpha: float = 1) -> Any:
    return NotImplemented if alpha == 1 else x - other * alpha


@_rule(aten.rsub.Tensor, aten.rsub.Scalar)
def _subtract_from(x: Tensor, other: Any, alpha: float = 1) -> Any:
    return torch.sub(other, x if alpha == 1 else x * alpha)


@_rule(aten.div.Tensor_mode)
def _divide(x: Tensor, other: Any, *, rounding_mode: str | None = None) -> Any:
    if isinstance(other, Tensor) or rounding_mode is None:
        return NotImplemented
    # A number would be imported as int32 or float32, whatever it divides.
    dtype = torch.result_type(x, other)
    number = torch.full((), other, dtype=dtype, device=x.device)
    return torch.div(x.to(dtype), number, rounding_mode=rounding_mode)


@_rule(aten.elu.default)
def _elu(x: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Any:
    if scale == 1 and input_scale == 1:
        return NotImplemented
    negative = torch.exp(x.clamp(max=0) * input_scale) - 1
    return torch.where(x > 0, x * scale, negative * (alpha * scale))


@_rule(aten.select.int)
def _select(x: Tensor, dim: int, index: int) -> Any:
    if not isinstance(index, int) or index >= 0:
        return NotImplemented
    stop = index + 1 or torch.iinfo(torch.int64).max
    return aten.slice.Tensor(x, dim, index, stop).squeeze(dim)


@_rule(aten.index.Tensor)
def _index(x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """Several index tensors, not all of the leading axes: bring the indexed axes to the front."""
    axes = [axis for axis, index in enumerate(indices) if index is not None]
    if len(axes) < 2 or len(axes) == len(indices):
        return NotImplemented
    others = [axis for axis in range(x.dim()) if axis not in axes]
    found = aten.index.Tensor(x.permute(*axes, *others), [indices[axis] for axis in axes])
    if axes[-1] - axes[0] != len(axes) - 1:
        return found
    # Neighbouring indexed axes: their common result stands where they stood.
    rank = found.dim() - len(others)
    before = list(range(rank, rank + axes[0]))
    return found.permute(*before, *range(rank), *range(rank + axes[0], found.dim()))


@_rule(aten.amax.default)
def _largest(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    dims = sorted(d % x.dim() for d in dim) if dim else list(range(x.dim()))
    for d in reversed(dims):
        x = torch.max(x, d, keepdim=keepdim).values
    return x


@_rule(aten.amin.default)
def _smallest(x: Tensor, dim: Sequence[int] = (), keepdim: bool = False) -> Tensor:
    return -torch.amax(-x, tuple(dim), keepdim)


@_rule(aten.min.dim)
def _smallest_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    values, indices = torch.max(-x, dim, keepdim)
    return -values, indices


@_rule(aten.prod.dim_int)
def _product(
    x: Tensor, dim: int, keepdim: bool = False, *, dtype: torch.dtype | None = None
) -> Tensor:
    products = torch.cumprod(x, dim, dtype=dtype)
    last = products.narrow(dim, x.shape[dim] - 1, 1)
    return last if keepdim else last.squeeze(dim)


@_rule(aten.native_group_norm.default)
def _group_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: Any) -> Any:
    if weight is not None and bias is not None:
        return NotImplemented
    channels = rest[1]
    weight = x.new_ones(channels) if weight is None else weight
    bias = x.new_zeros(channels) if bias is None else bias
    return aten.native_group_norm(x, weight, bias, *rest)


@_rule(aten.avg_pool2d.default)
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


@_rule(aten.upsample_nearest2d.vec)
def _nearest(
    x: Tensor, output_size: Sequence[int] | None, scale_factors: Sequence[float] | None
) -> Any:
    """TVM rounds differently unless one size is a multiple of the other."""
    sizes = output_size
    if sizes is None and scale_factors is not None:
        sizes = [int(e * s) for e, s in zip(x.shape[2:], scale_factors, strict=True)]
    pairs = list(zip(x.shape[2:], sizes or (), strict=True))
    if not all(isinstance(n, int) and isinstance(m, int) for n, m in pairs):
        return NotImplemented
    if all(m % n == 0 or n % m == 0 for n, m in pairs):
        return NotImplemented
    for axis, (size, wanted) in enumerate(pairs):
        step = 1 / scale_factors[axis] if scale_factors else size / wanted
        places = (torch.arange(wanted, device=x.device, dtype=torch.float32) * step).clamp(
            max=size - 1
        )
        x = x.index_select(axis + 2, places.to(torch.int64))
    return x
