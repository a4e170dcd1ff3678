"""Shapes: what is read of them, and operators that only move elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tvm_sparse.frontends.onnx.agreement import require_one
from tvm_sparse.frontends.onnx.known import Known, shape_array
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


@converter("Shape", raw=True)
def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Known:
    shape = x.array.shape if isinstance(x, Known) else x.shape
    return Known(shape_array(shape[start:end]))


@converter("Size", raw=True)
def _size(x: Any) -> Known:
    shape = x.array.shape if isinstance(x, Known) else x.shape
    return Known(np.asarray(np.prod(shape_array((1, *shape)))))


@converter("Identity", raw=True)
def _identity(x: Any) -> Any:
    return x


@converter("Reshape", static=["shape"])
def _reshape(x: Tensor, shape: np.ndarray, *, allowzero: int = 0) -> Tensor:
    target = shape.tolist()
    if not allowzero:
        target = [x.shape[i] if isinstance(n, int) and n == 0 else n for i, n in enumerate(target)]
    return x.reshape(target)


@converter("Flatten")
def _flatten(x: Tensor, *, axis: int = 1) -> Tensor:
    axis = axis + x.dim() if axis < 0 else axis
    if 0 < axis < x.dim():
        return x.flatten(axis).flatten(0, axis - 1)
    return x.reshape(1, -1) if axis == 0 else x.reshape(-1, 1)


@converter("Squeeze")
def _squeeze_attribute(x: Tensor, *, axes: Any = None, node: Node) -> Tensor:
    return _squeeze(x, None if axes is None else np.array(axes), node=node)


@converter("Squeeze", since=13, static=["axes"])
def _squeeze(x: Tensor, axes: np.ndarray | None = None, *, node: Node) -> Tensor:
    if axes is None:
        torch._check(all(isinstance(n, int) or n != 1 for n in x.shape))
        return x.squeeze()
    for axis in sorted({int(a) % x.dim() for a in axes.reshape(-1)}, reverse=True):
        extent: Any = x.shape[axis]
        require_one(node, axis, extent)
        x = x.squeeze(axis) if isinstance(extent, int) else x.select(axis, 0)
    return x


@converter("Unsqueeze")
def _unsqueeze_attribute(x: Tensor, *, axes: Any) -> Tensor:
    return _unsqueeze(x, np.array(axes))


@converter("Unsqueeze", since=13, static=["axes"])
def _unsqueeze(x: Tensor, axes: np.ndarray) -> Tensor:
    rank = x.dim() + axes.size
    for axis in sorted(int(a) % rank for a in axes.reshape(-1)):
        x = x.unsqueeze(axis)
    return x


@converter("Transpose")
def _transpose(x: Tensor, *, perm: Any = None) -> Tensor:
    return x.permute(*(range(x.dim())[::-1] if perm is None else perm))


@converter("Expand", static=["shape"])
def _expand(x: Tensor, shape: np.ndarray) -> Tensor:
    """Broadcast both ways: an extent of 1 in ``shape`` keeps that of ``x``."""
    target = shape.tolist()
    rank = max(x.dim(), len(target))
    own = [1] * (rank - x.dim()) + list(x.shape)
    target = [1] * (rank - len(target)) + target
    return x.expand(
        [a if isinstance(n, int) and n == 1 else n for a, n in zip(own, target, strict=True)]
    )


@converter("Tile", since=6, static=["repeats"])
def _tile(x: Tensor, repeats: np.ndarray) -> Tensor:
    return x.repeat(*repeats.tolist()) if repeats.size else x


@converter("Concat")
def _concatenate(*xs: Tensor, axis: int = 1) -> Tensor:
    return torch.cat(xs, axis)


@converter("Split")
def _split_attribute(x: Tensor, *, axis: int = 0, split: Any = None, node: Node) -> Any:
    return _split(x, None if split is None else np.array(split), axis=axis, node=node)


@converter("Split", since=13, static=["split"])
def _split(
    x: Tensor,
    split: np.ndarray | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
    node: Node,
) -> Any:
    if split is not None:
        return torch.split(x, split.tolist(), axis)
    parts = len(node.outputs) if num_outputs is None else num_outputs
    extent = x.shape[axis]
    each = -(-extent // parts)
    sizes = [each] * (parts - 1) + [extent - each * (parts - 1)]
    return torch.split(x, sizes, axis)


@converter("DepthToSpace")
def _depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR", node: Node) -> Tensor:
    n, channels, *plane = x.shape
    out = channels // blocksize**2
    if channels != out * blocksize**2:
        raise node.unsound(f"its input has {channels} channels", f"a multiple of {blocksize**2}")
    grid = [blocksize, blocksize]
    if mode == "DCR":
        x = x.reshape(n, *grid, out, *plane).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, out, *grid, *plane).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, out, plane[0] * blocksize, plane[1] * blocksize)


@converter("SpaceToDepth")
def _space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    n, channels, height, width = x.shape
    rows, columns = height // blocksize, width // blocksize
    x = x.reshape(n, channels, rows, blocksize, columns, blocksize)
    x = x.permute(0, 3, 5, 1, 2, 4) if mode == "DCR" else x.permute(0, 1, 3, 5, 2, 4)
    return x.reshape(n, channels * blocksize**2, rows, columns)


@converter("ReverseSequence")
def _reverse_sequences(
    x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0
) -> Tensor:
    """Elements behind a sequence's length stay where they are."""
    steps = torch.arange(x.shape[time_axis])
    rows, columns = (
        (lengths[:, None], steps[None]) if batch_axis == 0 else (lengths[None], steps[:, None])
    )
    places = torch.where(columns < rows, rows - 1 - columns, columns)
    places = places.reshape(*places.shape, *[1] * (x.dim() - 2)).expand(x.shape)
    return torch.gather(x, time_axis, places)
