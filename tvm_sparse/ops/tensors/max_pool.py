"""Max pooling in any number of dimensions: a NaN in the window wins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, topi

from tvm_sparse.ops.tensors.extrema import MAX, lowest
from tvm_sparse.ops.tensors.windows import Axis


def max_pool(  # noqa: PLR0917 (the attributes of a pooling)
    x: te.Tensor,
    spatial: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    shape: Sequence[Any],
    behind: Sequence[int | None] = (),
) -> Any:
    """Return the largest element of each window over the axes ``spatial`` of ``x``.

    ``padding`` are the borders before each of them; behind them is as much as the output of
    ``shape`` needs, at most what is ``behind`` if that is known. Borders are never larger than an
    element.

    Where columns lie side by side and windows overlap, rows are reduced first, whole vectors of
    columns at a time, and then the columns of each window.
    """
    numbers = zip(spatial, window, strides, dilation, padding, strict=True)
    axes = [Axis(axis, x.shape[axis], shape[axis], *rest) for axis, *rest in numbers]
    columns = axes[-1]
    rows = [axis for axis in axes[:-1] if axis.size > 1 or axis.stride > 1]
    apart = all(axis.size <= axis.stride and not axis.border for axis in axes)
    near = all(axis.is_near() for axis in axes)
    if columns.axis == len(shape) - 1 and rows and near and not apart:
        largest = _reduced(x, rows, "max_pool_rows", Axis.nearest)
        return _reduced(largest, [columns], "max_pool", Axis.nearest)
    low, high = [0] * len(shape), [0] * len(shape)
    for axis, most in zip(axes, behind or [None] * len(axes), strict=True):
        low[axis.axis] = axis.border
        beyond = axis.most_beyond()
        high[axis.axis] = beyond if most is None else min(beyond, most)
    source = x
    if any(low) or any(high):
        source = topi.nn.pad(x, low, high, lowest(str(x.dtype)), name="pad")
    return _reduced(
        source, axes, "max_pool", lambda axis, i, tap: i * axis.stride + tap * axis.dilation
    )


def _reduced(
    x: te.Tensor, axes: Sequence[Axis], name: str, place: Callable[[Axis, Any, Any], Any]
) -> te.Tensor:
    """Return the largest element of each window over ``axes``, whose elements ``place`` finds."""
    taps = [te.reduce_axis((0, axis.size), f"k{axis.axis}") for axis in axes]
    counts = {axis.axis: axis.count for axis in axes}
    best = MAX.reducer()

    def at(*index: Any) -> Any:
        source = list(index)
        for axis, tap in zip(axes, taps, strict=True):
            source[axis.axis] = place(axis, index[axis.axis], tap.var)
        return best(x(*source), axis=taps)

    return te.compute([counts.get(i, extent) for i, extent in enumerate(x.shape)], at, name=name)
