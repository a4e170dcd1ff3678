"""Convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.converters.windows import ATTRIBUTES, windows
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter

_CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


@converter("Conv", reads=ATTRIBUTES)
def convolution(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    group: int = 1,
    node: Node,
) -> Tensor:
    """Convolve; padding that differs before and behind is written out."""
    kernel = _kernel(node, weight, kernel_shape)
    place = windows(x, kernel, node)
    inside: Any = place.begin if place.symmetric else 0
    x = x if place.symmetric else place.pad(x, 0)
    return _CONVOLUTIONS[len(kernel)](
        x, weight, bias, place.strides, inside, place.dilations, group
    )


def _kernel(node: Node, weight: Tensor, kernel_shape: Sequence[int] | None) -> tuple[int, ...]:
    kernel = tuple(weight.shape[2:])
    if kernel_shape is not None and tuple(kernel_shape) != kernel:
        raise node.unsound(f"kernel_shape {list(kernel_shape)}", f"that of the weight, {kernel}")
    if len(kernel) not in _CONVOLUTIONS:
        raise node.refuse(f"has {len(kernel)} spatial axes", "1 to 3")
    return kernel


@converter("ConvTranspose", reads=ATTRIBUTES)
def _transposed(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    group: int = 1,
    node: Node,
) -> Tensor:
    """Convolve without padding, then crop what the padding takes away and append zeros."""
    kernel = _kernel(node, weight, kernel_shape)
    rank, given = len(kernel), node.attributes
    steps, gaps = (tuple(given.get(name) or [1] * rank) for name in ("strides", "dilations"))
    extra = tuple(output_padding or [0] * rank)
    full = [
        (n - 1) * s + (k - 1) * d + 1 + e
        for n, s, k, d, e in zip(x.shape[2:], steps, kernel, gaps, extra, strict=True)
    ]
    begin, end = _crops(node, x, full, steps, output_shape)
    small = all(0 <= e < max(s, d) for e, s, d in zip(extra, steps, gaps, strict=True))
    if begin == end and small and min(begin) >= 0:
        return _TRANSPOSED[rank](x, weight, bias, steps, begin, extra, group, gaps)
    result = _TRANSPOSED[rank](x, weight, None, steps, 0, 0, group, gaps)
    sides = [n for b, e, m in list(zip(begin, end, extra, strict=True))[::-1] for n in (-b, m - e)]
    result = F.pad(result, sides)
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _crops(
    node: Node,
    x: Tensor,
    full: Sequence[int],
    steps: Sequence[int],
    output_shape: Sequence[int] | None,
) -> tuple[list[int], list[int]]:
    """Return how much to take away before and behind each axis."""
    rank, auto_pad = len(full), node.attributes.get("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.unsound(f"auto_pad '{auto_pad}'", "NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    if output_shape is None and auto_pad in ("NOTSET", "VALID"):
        sides = list(node.attributes.get("pads") or [0] * 2 * rank)
        return sides[:rank], sides[rank:]
    wanted = output_shape or [n * s for n, s in zip(x.shape[2:], steps, strict=True)]
    total = [f - w for f, w in zip(full, list(wanted)[-rank:], strict=True)]
    before = [t // 2 if auto_pad == "SAME_UPPER" else t - t // 2 for t in total]
    return before, [t - b for t, b in zip(total, before, strict=True)]


@converter("DeformConv", since=19, reads=("strides", "dilations", "pads"))
def _deformable(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    group: int = 1,
    offset_group: int = 1,
    node: Node,
) -> Tensor:
    """Sample each kernel element where its offset says, then multiply as a convolution does."""
    if x.dim() != 4:
        raise node.refuse(f"has {x.dim() - 2} spatial axes", "2")
    kernel = _kernel(node, weight, kernel_shape)
    place = windows(x, kernel, node)
    n, channels = x.shape[:2]
    rows, columns = place.outputs
    taps = kernel[0] * kernel[1]
    offset = offset.reshape(n, offset_group, taps, 2, rows, columns)
    places = []
    for axis, count in enumerate(place.outputs):
        first = torch.arange(count) * place.strides[axis] - place.begin[axis]
        tap = torch.arange(kernel[axis]) * place.dilations[axis]
        tap = tap[:, None].expand(kernel) if axis == 0 else tap[None].expand(kernel)
        along = first[:, None] if axis == 0 else first[None]
        base = tap.reshape(taps, 1, 1) + along.expand(rows, columns)[None]
        places.append(base.to(x.dtype) + offset[:, :, :, axis])
    grouped = x.reshape(n * offset_group, channels // offset_group, *x.shape[2:])
    y, xs = (p.reshape(n * offset_group, taps, rows, columns) for p in places)
    sampled = bilinear(grouped, y, xs)
    if mask is not None:
        sampled = sampled * mask.reshape(n * offset_group, 1, taps, rows, columns)
    sampled = sampled.reshape(n, group, channels // group * taps, rows * columns)
    matrix = weight.reshape(group, weight.shape[0] // group, -1)
    result = torch.matmul(matrix, sampled).reshape(n, weight.shape[0], rows, columns)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


def bilinear(x: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return ``x`` of (n, c, h, w) at places of (n, ...) as (n, c, ...); zero outside."""
    n, channels, height, width = x.shape
    flat = x.reshape(n, channels, height * width)
    top, left = rows.floor(), columns.floor()
    total: Any = 0
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        y, z = top + down, left + right
        share = (1 - (rows - y).abs()) * (1 - (columns - z).abs())
        inside = (y >= 0) & (y < height) & (z >= 0) & (z < width)
        place = y.clamp(0, height - 1) * width + z.clamp(0, width - 1)
        index = place.to(torch.int64).reshape(n, 1, -1).expand(n, channels, -1)
        values = torch.gather(flat, 2, index).reshape(n, channels, *rows.shape[1:])
        total = total + values * torch.where(inside, share, torch.zeros_like(share))[:, None]
    return total
