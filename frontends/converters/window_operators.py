"""Converters of poolings with places, and of convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tvm import relax, te, tirx

from tvm_sparse.frontends.converters.axes import for_each_axis
from tvm_sparse.frontends.converters.operators import converter, emit, filled
from tvm_sparse.ops.contractions.im2col import Taps, im2col
from tvm_sparse.ops.tensors.open_maxima import open_maxima
from tvm_sparse.ops.tensors.window_maxima import ADAPTIVE, Windows, window_maxima


@converter("adaptive_max_pool2d.default", "adaptive_max_pool3d.default")
def _adaptive_max_pool(importer: Any, node: torch.fx.Node) -> Any:
    x, counts = importer.retrieve_args(node)
    if _is_open(x, len(counts)):
        return _open_maxima(
            importer, x, lambda e, i: Windows.open_shares(e, counts[i]), len(counts)
        )
    extents = [int(e) for e in list(x.ty.shape)[-len(counts) :]]
    axes = [Windows.shares(e, c) for e, c in zip(extents, counts, strict=True)]
    if _reads_places(node):
        return _maxima(importer, x, axes)
    call = importer.block_builder.call_te(
        lambda x: window_maxima(x, axes, places=False),
        x,
        primfunc_name_hint="window_maxima",
        primfunc_attrs={ADAPTIVE: len(axes)},
    )
    return (emit(importer, call),)


@converter("max_pool2d.default", "max_pool2d_with_indices.default")
def _maxima_rounded_up(importer: Any, node: torch.fx.Node) -> Any | None:
    """Pool open planes, whose number of windows is rounded up, with borders that are so much wider.

    TVM counts the windows by a condition, with which it fuses nothing.
    """
    arguments: list[Any] = list(importer.retrieve_args(node))
    x, kernel, *rest = arguments
    stride, padding, dilation, ceil = filled(rest[:4], ([], 0, 1, False))
    planes = node.meta["val"] if isinstance(node.meta["val"], torch.Tensor) else node.meta["val"][0]
    places = not isinstance(node.meta["val"], torch.Tensor) and _reads_places(node)
    if not ceil or places:
        return None
    sizes = [for_each_axis(value, 2) for value in (kernel, stride or kernel, padding, dilation)]
    if (border := _wider_border(planes.shape, *sizes)) is None:
        return None
    size, step, _, wide = sizes
    pooled = emit(importer, relax.op.nn.max_pool2d(x, size, step, border, wide))
    return pooled if isinstance(node.meta["val"], torch.Tensor) else (pooled,)


@converter("avg_pool1d.default", "avg_pool2d.default")
def _means_rounded_up(importer: Any, node: torch.fx.Node) -> Any | None:
    """Pool open lines or planes in the same way: what lies beyond the border counts in no mean."""
    arguments: list[Any] = list(importer.retrieve_args(node))
    x, kernel, *rest = arguments
    stride, padding, ceil, counts, divisor = filled(rest[:5], ([], 0, False, True, None))
    rank, shape = 1 if "1d" in str(node.target) else 2, node.meta["val"].shape
    if not ceil or divisor is not None:
        return None
    size, step, first = (
        for_each_axis(value, rank) for value in (kernel, stride or kernel, padding)
    )
    if (border := _wider_border(shape, size, step, first, [1] * rank)) is None:
        return None
    if counts and any(first):
        x = emit(importer, relax.op.nn.pad(x, [0] * 4 + [p for p in first for _ in range(2)]))
        border = [0] * rank + [wide - p for wide, p in zip(border[rank:], first, strict=True)]
    pool = {1: relax.op.nn.avg_pool1d, 2: relax.op.nn.avg_pool2d}[rank]
    return emit(importer, pool(x, size, step, border, count_include_pad=False))


def _wider_border(
    shape: Any, size: list[int], step: list[int], first: list[int], wide: list[int]
) -> list[int] | None:
    """Return the border before and behind each axis with which no number of windows is rounded.

    ``shape`` is the result's; None where its last axes are known, or where a window is smaller than
    a step and the border: PyTorch leaves out one that begins behind the last element.
    """
    rank = len(size)
    if len(shape) != rank + 2 or all(isinstance(extent, int) for extent in shape[-rank:]):
        return None
    if any((k - 1) * d + 1 < s + p for k, s, p, d in zip(size, step, first, wide, strict=True)):
        return None
    return [*first, *(p + s - 1 for p, s in zip(first, step, strict=True))]


def step_by_windows(node: torch.fx.Node) -> None:
    """Let a pooling whose step is left out, which is its window then, have it as an argument.

    TVM's converters take an empty list for one.
    """
    x, window, *rest = node.args
    if rest and not rest[0]:
        node.args = (x, window, window, *rest[1:])


def max_pool_places(importer: Any, node: torch.fx.Node, pooled: Any) -> Any:
    """Return the maxima ``pooled`` with their places, which TVM's converter leaves out.

    Nothing is done where nothing reads the places.
    """
    if not _reads_places(node):
        return pooled
    arguments: list[Any] = list(importer.retrieve_args(node))
    x, kernel, *rest = arguments
    stride, padding, dilation, rounds_up = filled(rest[:4], ([], 0, 1, False))
    rank = 3 if "3d" in str(node.target) else 2
    sizes = [for_each_axis(value, rank) for value in (kernel, stride or kernel, padding, dilation)]
    if _is_open(x, rank):
        own = [*zip(*sizes, strict=True)]
        return _open_maxima(
            importer, x, lambda e, i: Windows.of(e, *own[i], rounds_up=bool(rounds_up)), rank
        )
    counts = [int(e) for e in node.meta["val"][0].shape[-rank:]]
    extents = [int(e) for e in list(x.ty.shape)[-rank:]]
    axes = [Windows(e, c, *each) for e, c, *each in zip(extents, counts, *sizes, strict=True)]
    return _maxima(importer, x, axes)


def _reads_places(node: torch.fx.Node) -> bool:
    """Whether something reads the second result of ``node``, or both."""
    return any(user.op != "call_function" or user.args[1:] != (0,) for user in node.users)


def _is_open(x: Any, rank: int) -> bool:
    """Whether one of the last ``rank`` axes of a tensor of the program is open."""
    return not all(isinstance(extent, tirx.IntImm) for extent in list(x.ty.shape)[-rank:])


def _open_maxima(importer: Any, x: Any, windows: Callable[[Any, int], Windows], rank: int) -> Any:
    """Return the maxima with their places where extents are open: ``windows`` of each axis."""

    def maxima(x: te.Tensor) -> list[te.Tensor]:
        axes = [windows(extent, i) for i, extent in enumerate(list(x.shape)[-rank:])]
        return open_maxima(x, axes)

    call = importer.block_builder.call_te(maxima, x, primfunc_name_hint="open_maxima")
    return emit(importer, call)


def _maxima(importer: Any, x: Any, axes: list[Windows]) -> Any:
    call = importer.block_builder.call_te(
        lambda x: window_maxima(x, axes), x, primfunc_name_hint="window_maxima"
    )
    return emit(importer, call)


@converter("im2col.default")
def _im2col(importer: Any, node: torch.fx.Node) -> Any:
    """Take a batch of planes, or one without an axis for batches."""
    x, *numbers = importer.retrieve_args(node)
    shape = [int(extent) for extent in x.ty.shape]
    axes = zip(shape[-2:], *(for_each_axis(value, 2) for value in numbers), strict=True)
    rows, columns = (Taps(*each) for each in axes)
    batch = x if len(shape) == 4 else emit(importer, relax.op.expand_dims(x, 0))
    call = importer.block_builder.call_te(
        lambda x: im2col(x, rows, columns), batch, primfunc_name_hint="im2col"
    )
    found = emit(importer, call)
    return found if len(shape) == 4 else emit(importer, relax.op.squeeze(found, 0))


@converter("convolution.default")
def _convolution(importer: Any, node: torch.fx.Node) -> Any | None:
    """Transposed in three dimensions; the others are TVM's."""
    x, weight, bias, stride, padding, dilation, transposed, extra, groups = importer.retrieve_args(
        node
    )
    if not transposed or len(x.ty.shape) != 5:
        return None
    steps = (for_each_axis(value, 3) for value in (stride, padding, extra, dilation))
    result = relax.op.nn.conv3d_transpose(x, weight, *steps, groups)
    if bias is None:
        return emit(importer, result)
    column = emit(importer, relax.op.reshape(bias, [1, -1, 1, 1, 1]))
    return emit(importer, relax.op.add(emit(importer, result), column))
