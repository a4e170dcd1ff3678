"""Where the windows of convolutions and pooling lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.nn import functional as F

from tvm_sparse.frontends.onnx.node import Node


@dataclass(frozen=True)
class Windows:
    """Windows over the trailing axes of an input.

    Parameters
    ----------
    extents
        Extents of these axes.
    kernel, strides, dilations
        One number an axis.
    begin, end
        Padding before and after each axis.
    outputs
        Number of windows along each axis.
    ceil
        Whether the last window may pass the padded end.
    """

    extents: tuple[Any, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[int, ...]
    end: tuple[int, ...]
    outputs: tuple[Any, ...]
    ceil: bool = False

    @property
    def symmetric(self) -> bool:
        """Whether as much is padded behind as before, whatever the open extents are."""
        return all(statically_known_true(b == e) for b, e in zip(self.begin, self.end, strict=True))

    @property
    def overhang(self) -> tuple[Any, ...]:
        """Elements by which the last window passes the padded end."""
        if not self.ceil:
            return (0,) * len(self.end)
        spans = zip(self.outputs, self.strides, self._reach, strict=True)
        ends = [(n - 1) * stride + reach for n, stride, reach in spans]
        padded = zip(self.extents, self.begin, self.end, strict=True)
        over = (e - (x + b + a) for e, (x, b, a) in zip(ends, padded, strict=True))
        return tuple(torch.sym_max(0, n) for n in over)

    @property
    def hangs_over(self) -> bool:
        """Whether a last window passes the padded end, for some extents if they are open."""
        return any(not isinstance(n, int) or n > 0 for n in self.overhang)

    @property
    def _reach(self) -> tuple[int, ...]:
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True))

    def pad(self, x: Tensor, value: float, *, overhang: bool = False) -> Tensor:
        """Return ``x`` padded with ``value``, as far as the last window reaches if asked."""
        more = self.overhang if overhang else (0,) * len(self.end)
        return padded(x, self.begin, [a + m for a, m in zip(self.end, more, strict=True)], value)


def padded(x: Tensor, begin: Sequence[int], end: Sequence[int], value: float) -> Tensor:
    """Return ``x`` with ``value`` around its trailing axes."""
    if all(isinstance(n, int) and n == 0 for n in (*begin, *end)):
        return x
    pairs = list(zip(begin, end, strict=True))[::-1]
    return F.pad(x, [n for pair in pairs for n in pair], value=value)


ATTRIBUTES = ("strides", "dilations", "pads", "auto_pad")
"""What :func:`windows` reads of a node, beside ``ceil_mode``."""


def windows(x: Tensor, kernel: Sequence[int], node: Node) -> Windows:
    """Return the windows of ``node`` over the trailing axes of ``x``, its padding worked out.

    Raises
    ------
    InputError
        The attributes contradict one another.
    """
    rank, given = x.dim() - 2, node.attributes
    steps, gaps = (tuple(given.get(name) or [1] * rank) for name in ("strides", "dilations"))
    extents = tuple(x.shape[2:])
    if not rank == len(kernel) == len(steps) == len(gaps):
        raise node.unsound("its windows have another number of axes than its input", f"{rank}")
    if min(*kernel, *steps, *gaps) < 1:
        raise node.unsound("a kernel, stride or dilation is less than 1")
    begin, end = _padding(node, extents, (kernel, steps, gaps))
    outputs, ceil = [], bool(given.get("ceil_mode"))
    for i in range(rank):
        span = extents[i] + begin[i] + end[i] - (kernel[i] - 1) * gaps[i] - 1
        count = (-(-span // steps[i]) if ceil else span // steps[i]) + 1
        if ceil:  # no window starts in the padding behind
            count = torch.sym_min(count, -(-(extents[i] + begin[i]) // steps[i]))
        outputs.append(count)
    if not all(n >= 1 for n in outputs):
        raise node.unsound(f"its windows do not fit into an input of {list(x.shape)}")
    return Windows(extents, tuple(kernel), steps, gaps, begin, end, tuple(outputs), ceil)


def _padding(
    node: Node, extents: tuple[Any, ...], shape: tuple[Sequence[int], ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank, auto_pad = len(extents), node.attributes.get("auto_pad", "NOTSET")
    if auto_pad == "NOTSET":
        pads = tuple(node.attributes.get("pads") or [0] * 2 * rank)
        if len(pads) != 2 * rank:
            raise node.unsound(f"has {len(pads)} pads", f"{2 * rank}")
        return tuple(pads[:rank]), tuple(pads[rank:])
    if auto_pad == "VALID":
        return (0,) * rank, (0,) * rank
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        raise node.unsound(f"auto_pad '{auto_pad}'", "NOTSET, VALID, SAME_UPPER or SAME_LOWER")
    begin, end = [], []
    for extent, kernel, stride, dilation in zip(extents, *shape, strict=True):
        reach = (kernel - 1) * dilation + 1
        span = 0 if stride == 1 else (-(-extent // stride) - 1) * stride - extent + 1
        total = torch.sym_max(0, span + reach - 1)
        small, large = total // 2, total - total // 2
        begin.append(small if auto_pad == "SAME_UPPER" else large)
        end.append(large if auto_pad == "SAME_UPPER" else small)
    return tuple(begin), tuple(end)
