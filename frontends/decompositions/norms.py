"""Normalisation by statistics of the input: the statistics, which few models read, stand apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tvm_sparse.frontends.decompositions.table import aten, rule

Triple = tuple[Tensor, Tensor, Tensor]


@rule(aten.native_layer_norm.default)
def _layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> Triple:
    mean, variance = _statistics(x, list(range(x.dim() - len(shape), x.dim())))
    normalised = aten.layer_norm(x, shape, weight, bias, eps)
    return normalised, mean, torch.rsqrt(variance + eps)


@rule(aten.native_group_norm.default)
def _group_norm(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    batch: int,
    channels: int,
    pixels: int,
    groups: int,
    eps: float,
) -> Triple:
    grouped = x.reshape(batch, groups, channels // groups * pixels)
    mean, variance = _statistics(grouped, [2])
    normalised = aten.group_norm(x, groups, weight, bias, eps)
    return normalised, mean.squeeze(2), torch.rsqrt(variance + eps).squeeze(2)


@rule(aten.instance_norm.default)
def _instance_norm(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Write a norm of groups of one channel; PyTorch's moves the batch to the channels."""
    if not use_input_stats:
        found = aten._native_batch_norm_legit_no_training(
            x, weight, bias, running_mean, running_var, momentum, eps
        )
        return found[0]
    return aten.group_norm(x, x.shape[1], weight, bias, eps)


@rule(aten._native_batch_norm_legit_functional.default)
def _batch_norm(  # noqa: PLR0917 (the operator's own signature)
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    axes = [a for a in range(x.dim()) if a != 1]
    mean, variance = _statistics(x, axes)
    if not training:
        normal = aten._native_batch_norm_legit_no_training(
            x, weight, bias, running_mean, running_var, momentum, eps
        )
        return (*normal, running_mean, running_var)
    inverse = torch.rsqrt(variance + eps)
    count = x.numel() / x.shape[1]
    channels = [1, -1, *[1] * (x.dim() - 2)]
    result = (x - mean) * inverse
    result = result if weight is None else result * weight.reshape(channels)
    result = result if bias is None else result + bias.reshape(channels)
    mean, variance, inverse = (s.reshape(-1) for s in (mean, variance, inverse))
    unbiased = variance * (count / (count - 1))
    means = running_mean * (1 - momentum) + mean * momentum
    return result, mean, inverse, means, running_var * (1 - momentum) + unbiased * momentum


def _statistics(x: Tensor, axes: list[int]) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance in two passes; the axes are kept.

    The second pass corrects the mean, so that both are right far from zero.
    """
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    shift = centred.mean(axes, keepdim=True)
    centred = centred - shift
    return mean + shift, (centred * centred).mean(axes, keepdim=True)
