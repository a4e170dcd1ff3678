"""Operators that torchao adds to PyTorch, in the form that rows of bytes are recognised in.

They exist once torchao is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def torchao_rules() -> dict[Any, Callable[..., Any]]:
    """Return the decompositions of those of torchao's operators that exist by now."""
    found = ((getattr(torch.ops.torchao, name, None), rule) for name, rule in _RULES.items())
    return {operator.default: rule for operator, rule in found if operator is not None}


def _choose(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    mapping: str,
    block_size: Sequence[int],
    target_dtype: torch.dtype,
    least: int,
    most: int,
    eps: float,
    scale_dtype: torch.dtype,
    zero_dtype: torch.dtype,
    keepdim: bool = False,
) -> Any:
    axes = _axes(block_size, x)
    if axes is None or not keepdim or None in (least, most, eps, scale_dtype, zero_dtype):
        return NotImplemented
    if mapping == "SYMMETRIC":
        scale = (x.abs().amax(axes, keepdim=True) / ((most - least) / 2)).clamp(min=eps)
        zero = torch.full_like(scale, int((most + least + 1) / 2))
    elif mapping == "ASYMMETRIC":
        low = x.amin(axes, keepdim=True).clamp(max=0)
        high = x.amax(axes, keepdim=True).clamp(min=0)
        scale = ((high - low) / float(most - least)).clamp(min=eps)
        zero = (least - torch.round(low / scale)).clamp(least, most)
    else:
        return NotImplemented
    return scale.to(scale_dtype), zero.to(zero_dtype)


def _quantize(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    block_size: Sequence[int],
    scale: Tensor,
    zero: Tensor | None,
    dtype: torch.dtype,
    least: int,
    most: int,
) -> Any:
    axes = _axes(block_size, x)
    if axes is None or zero is None or None in (least, most):
        return NotImplemented
    shape = [1 if axis in axes else extent for axis, extent in enumerate(x.shape)]
    steps = torch.round(x * (1.0 / scale.reshape(shape)))
    return (steps + zero.reshape(shape)).clamp(least, most).to(dtype)


def _axes(block_size: Sequence[int], x: Tensor) -> list[int] | None:
    """Return the axes that a block of equal scale has whole; ``None`` if it has parts of one."""
    pairs = list(zip(block_size, x.shape, strict=True))
    if any(block not in (1, extent) for block, extent in pairs):
        return None
    return [axis for axis, (block, _) in enumerate(pairs) if block != 1]


_RULES: dict[str, Callable[..., Any]] = {
    "choose_qparams_affine": _choose,
    "quantize_affine": _quantize,
}
