"""Convolutions padded by name (``padding="same"``) with numbers instead, which torchao expects."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

_AT = torch.ops.aten
_DEFAULTS: tuple[Any, ...] = (None, [1, 1], "valid", [1, 1], 1)
"""Of bias, stride, padding, dilation and groups."""


def number_padding(graph: fx.Graph) -> None:
    """Give every convolution of planes its padding as numbers, in place.

    Where "same" adds an odd number of pixels, the last row or column is padded before, as PyTorch
    does it.
    """
    for node in graph.find_nodes(op="call_function", target=_AT.conv2d.padding):
        given: tuple[Any, ...] = node.args
        x, weight, bias, stride, name, dilation, groups = given + _DEFAULTS[len(given) - 2 :]
        sums = [0, 0]
        if name == "same":
            steps = [dilation] * 2 if isinstance(dilation, int) else list(dilation) * 2
            window = weight.meta["val"].shape[2:]
            sums = [step * (size - 1) for step, size in zip(steps, window, strict=False)]
        odd = [total % 2 for total in sums]
        if any(odd):
            x = _padded(graph, node, x, [0, odd[1], 0, odd[0]])
        node.target = _AT.conv2d.default
        node.args = (x, weight, bias, stride, [total // 2 for total in sums], dilation, groups)


def _padded(graph: fx.Graph, node: fx.Node, x: Any, pads: list[int]) -> fx.Node:
    with graph.inserting_before(node):
        padded = graph.call_function(_AT.constant_pad_nd.default, (x, pads))
    padded.meta["val"] = _AT.constant_pad_nd.default(x.meta["val"], pads)
    return padded
