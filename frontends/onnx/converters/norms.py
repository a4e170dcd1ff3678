"""Normalisation; statistics of the input take two passes over it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter
from tvm_sparse.frontends.onnx.types import element_of


@converter("BatchNormalization", since=7)
def _batch_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
    spatial: int = 1,
    node: Node,
) -> Any:
    if not spatial:
        raise node.refuse("normalises each place of a channel apart (spatial = 0)", "spatial = 1")
    if not training_mode:
        if len([name for name in node.outputs if name]) > 1:
            raise node.refuse("gives statistics of a training step", "one output")
        dtype = x.dtype if scale.dtype == mean.dtype == x.dtype else mean.dtype
        mean, variance, scale, bias = (t.to(dtype) for t in (mean, variance, scale, bias))
        y = F.batch_norm(x.to(dtype), mean, variance, scale, bias, training=False, eps=epsilon)
        return y.to(x.dtype)
    axes = [axis for axis in range(x.dim()) if axis != 1]
    own_mean, own_variance = _statistics(x, axes)
    shape = [-1, *[1] * (x.dim() - 2)]
    y = (x - own_mean) * torch.rsqrt(own_variance + epsilon)
    y = y * scale.reshape(shape) + bias.reshape(shape)
    means, variances = own_mean.reshape(-1), own_variance.reshape(-1)
    return (
        y.to(x.dtype),
        mean * momentum + means * (1 - momentum),
        variance * momentum + variances * (1 - momentum),
    )


def _statistics(x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor]:
    """Return mean and variance along ``axes``, which stay as extents of 1."""
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    return mean, (centred * centred).mean(axes, keepdim=True)


@converter("InstanceNormalization", since=6)
def _instance_norm(x: Tensor, scale: Tensor, bias: Tensor, *, epsilon: float = 1e-5) -> Tensor:
    mean, variance = _statistics(x, list(range(2, x.dim())))
    shape = [-1, *[1] * (x.dim() - 2)]
    y = (x - mean) * torch.rsqrt(variance + epsilon)
    return y * scale.reshape(shape) + bias.reshape(shape)


@converter("GroupNormalization", since=21)
def _group_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Node,
) -> Tensor:
    _check_precision(node, x, stash_type)
    groups = x.reshape(x.shape[0], num_groups, -1).to(torch.promote_types(x.dtype, torch.float32))
    mean, variance = _statistics(groups, [2])
    y = ((groups - mean) * torch.rsqrt(variance + epsilon)).reshape(x.shape).to(x.dtype)
    shape = [-1, *[1] * (x.dim() - 2)]
    return y * scale.reshape(shape) + bias.reshape(shape)


@converter("GroupNormalization", since=18)
def _group_norm_of_groups(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    node: Node,
) -> Tensor:
    """Before version 21 scale and bias had one element a group."""
    each = x.shape[1] // num_groups
    scale, bias = (t[:, None].expand(-1, each).reshape(-1) for t in (scale, bias))
    return _group_norm(x, scale, bias, num_groups=num_groups, epsilon=epsilon, node=node)


def _check_precision(node: Node, x: Tensor, stash_type: int) -> None:
    """Refuse statistics in less than single precision."""
    if stash_type != element_of(torch.float32) and x.dtype != torch.float64:
        raise node.refuse(f"stash_type {stash_type}", "1, statistics in float32")


@converter("LayerNormalization")
def layer_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Node,
) -> Any:
    """Normalise the axes from ``axis`` on, with mean and variance, which are outputs, too."""
    _check_precision(node, x, stash_type)
    axis %= x.dim()
    shape = x.shape[axis:]
    if len(node.outputs) == 1 and x.dtype == torch.float32 and scale.shape == shape:
        return F.layer_norm(x, list(shape), scale, bias, epsilon)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean, variance = _statistics(wide, list(range(axis, x.dim())))
    inverse = torch.rsqrt(variance + epsilon)
    y = ((wide - mean) * inverse).to(x.dtype) * scale
    return (y if bias is None else y + bias), mean, inverse


@converter("RMSNormalization")
def rms_norm(
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
    node: Node,
) -> Tensor:
    """Divide the axes from ``axis`` on by the root of their mean square."""
    _check_precision(node, x, stash_type)
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    axes = list(range(axis % x.dim(), x.dim()))
    inverse = torch.rsqrt((wide * wide).mean(axes, keepdim=True) + epsilon)
    return (wide * inverse).to(x.dtype) * scale


@converter("LpNormalization")
def _lp_norm(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """Divide rows by their norm; a row of zeros stays zero."""
    size = x.abs() if p == 1 else x * x
    total = size.sum(axis, keepdim=True)
    norm = total if p == 1 else total.sqrt()
    return torch.where(norm == 0, torch.zeros_like(x), x / norm)


@converter("MeanVarianceNormalization")
def _mean_variance(x: Tensor, *, axes: Sequence[int] = (0, 2, 3)) -> Tensor:
    mean, variance = _statistics(x, list(axes))
    return (x - mean) / (variance.sqrt() + 1e-9)


@converter("LRN")
def _local_response(
    x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Tensor:
    """Squares of neighbouring channels are summed, the odd one behind."""
    before = (size - 1) // 2
    squares = F.pad(x * x, [0, 0] * (x.dim() - 2) + [before, size - 1 - before])
    total: Any = sum(squares.narrow(1, i, x.shape[1]) for i in range(size))
    return x / (bias + alpha / size * total) ** beta
