"""What a weight of an ONNX file is multiplied by, from values that onnxruntime computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from tvm_sparse.onnx_files.layers import Use
from tvm_sparse.onnx_files.operators import CONVOLUTION, RECURRENT, attributes
from tvm_sparse.onnx_files.running import hidden_states
from tvm_sparse.pruning.onnx_models.layers import is_same

_LENGTHS, _INITIAL = 4, 5
"""Inputs of a recurrent node: steps of each sequence, and the first hidden states."""


def is_visible(use: Use) -> bool:
    """Whether values of the graph are what the weight is multiplied by.

    A GRU whose reset gate comes first multiplies part of a weight by what no value shows.
    """
    plain = use.place.sort != RECURRENT or use.place.position == 1 or use.node.op_type != "GRU"
    return plain or bool(attributes(use.node).get("linear_before_reset", 0))


def needed(use: Use) -> list[str]:
    """Return the values that :func:`inputs_of` looks at."""
    if use.place.sort != RECURRENT:
        return [use.reads]
    lengths, initial = _optional(use.node, _LENGTHS), _optional(use.node, _INITIAL)
    if use.place.position == 1:
        return [use.reads, *filter(None, [lengths])]
    return [use.reads, hidden_states(use.node), *filter(None, [lengths, initial])]


def _optional(node: Any, position: int) -> str:
    return node.input[position] if len(node.input) > position else ""


def inputs_of(use: Use, kernel: tuple[int, ...], value: Callable[[str], Tensor]) -> Tensor:
    """Return what the weight reads, its columns last but for convolutions.

    Parameters
    ----------
    kernel
        The extents of a convolution's window.
    value
        Returns a value by its name: always the same tensor.
    """
    if use.place.sort == RECURRENT:
        return _gate_inputs(use, value)
    x = value(use.reads)
    if use.place.sort == CONVOLUTION:
        given = attributes(use.node)
        return _same(x, given, kernel) if is_same(given) else x
    return x.mT if use.place.turned and x.dim() > 1 else x


def _same(x: Tensor, given: Mapping[str, Any], kernel: tuple[int, ...]) -> Tensor:
    """Pad ``x`` as ``auto_pad`` says: as many outputs as strides fit in."""
    widths: list[int] = []
    ones = [1] * len(kernel)
    strides, dilations = given.get("strides", ones), given.get("dilations", ones)
    for axis in reversed(range(len(kernel))):
        extent, stride = x.shape[2 + axis], strides[axis]
        reach = dilations[axis] * (kernel[axis] - 1) + 1
        total = max((-(-extent // stride) - 1) * stride + reach - extent, 0)
        less, more = total // 2, total - total // 2
        widths += [less, more] if given["auto_pad"] == b"SAME_UPPER" else [more, less]
    return F.pad(x, widths)


def _gate_inputs(use: Use, value: Callable[[str], Tensor]) -> Tensor:
    """Return the rows that the gates of one direction read, those of steps that count."""
    node, given = use.node, attributes(use.node)
    x = value(use.reads)
    steps = x.transpose(0, 1) if given.get("layout", 0) else x
    valid = torch.ones(steps.shape[:2], dtype=torch.bool)
    if name := _optional(node, _LENGTHS):
        valid = torch.arange(len(steps))[:, None] < value(name)
    if use.place.position == 1:
        return steps[valid]
    hidden = value(hidden_states(node))  # (steps, directions, batch, width)
    hidden = hidden.permute(1, 2, 0, 3) if given.get("layout", 0) else hidden
    direction = use.layout.direction or 0
    own = hidden[:, direction]
    first = torch.zeros_like(own[0])
    if name := _optional(node, _INITIAL):
        initial = value(name)
        first = initial[:, direction] if given.get("layout", 0) else initial[direction]
    if direction == 0 and given.get("direction", b"forward") != b"reverse":
        return torch.cat([first[None], own[:-1]])[valid]
    following = torch.cat([own[1:], first[None]])
    ends = torch.cat([valid[1:], torch.zeros_like(valid[:1])])
    return torch.where(ends[..., None], following, first)[valid]


def as_tensors(values: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return onnxruntime's ``values`` as tensors."""
    return {name: torch.from_numpy(np.asarray(v, order="C")) for name, v in values.items()}
