"""Sequences of tensors, settled at import: each operator makes a list longer, shorter or joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tvm_sparse.frontends.onnx.known import Known, Series
from tvm_sparse.frontends.onnx.node import Node
from tvm_sparse.frontends.onnx.registry import converter


@converter("SequenceConstruct", raw=True)
def _construct(*values: Any) -> Series:
    return Series(values)


@converter("SequenceEmpty", raw=True, reads=["dtype"])
def _empty() -> Series:
    return Series(())


@converter("SequenceLength", raw=True)
def _length(series: Series) -> Known:
    return Known(np.asarray(len(series.values)))


@converter("SequenceAt", raw=True, static=["position"])
def _at(series: Series, position: np.ndarray, *, node: Node) -> Any:
    return series.values[_place(node, position, len(series.values) - 1)]


@converter("SequenceErase", raw=True, static=["position"])
def _erase(series: Series, position: np.ndarray | None = None, *, node: Node) -> Series:
    values = list(series.values)
    del values[_place(node, position, len(values) - 1)]
    return Series(tuple(values))


@converter("SequenceInsert", raw=True, static=["position"])
def _insert(
    series: Series, value: Any, position: np.ndarray | None = None, *, node: Node
) -> Series:
    values = list(series.values)
    values.insert(_place(node, position, len(values)), value)
    return Series(tuple(values))


def _place(node: Node, position: np.ndarray | None, last: int) -> int:
    """Return a place from the beginning; what is not given is the last one."""
    place = last if position is None else int(position)
    count = last if node.operator == "SequenceInsert" else last + 1
    if not -count <= place <= last:
        raise node.unsound(f"position {place} of a sequence of {count}", "one inside of it")
    return place + count if place < 0 else place


@converter("SplitToSequence", raw=True, static=["split"])
def _split(
    x: Any, split: np.ndarray | None = None, *, axis: int = 0, keepdims: int = 1, node: Node
) -> Series:
    shape = x.array.shape if isinstance(x, Known) else x.shape
    extent = shape[axis]
    if not isinstance(extent, int):
        raise node.refuse("splits an axis of unknown extent", "a fixed extent")
    if split is None or split.ndim == 0:
        each = 1 if split is None else int(split)
        sizes = [min(each, extent - begin) for begin in range(0, extent, each)]
    else:
        sizes = split.tolist()
    squeeze = split is None and not keepdims
    if isinstance(x, Known):
        arrays = np.split(x.array, np.cumsum(sizes)[:-1], axis)
        return Series(tuple(Known(a.squeeze(axis) if squeeze else a) for a in arrays))
    pieces = torch.split(x, sizes, axis)
    return Series(tuple(piece.squeeze(axis) for piece in pieces) if squeeze else pieces)


@converter("ConcatFromSequence", raw=True)
def _concatenated(series: Series, *, axis: int, new_axis: int = 0) -> Any:
    if all(isinstance(value, Known) for value in series.values):
        arrays = [value.array for value in series.values]
        return Known(np.stack(arrays, axis) if new_axis else np.concatenate(arrays, axis))
    tensors = [v.tensor() if isinstance(v, Known) else v for v in series.values]
    return torch.stack(tensors, axis) if new_axis else torch.cat(tensors, axis)
