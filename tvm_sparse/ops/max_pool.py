"""Max pooling in any number of dimensions: a NaN in the window wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, topi

from tvm_sparse.ops.extrema import MAX, lowest


def max_pool(  # noqa: PLR0917 (the attributes of a pooling)
    x: te.Tensor,
    spatial: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    shape: Sequence[Any],
) -> Any:
    """Return the largest element of each window over the axes ``spatial`` of ``x``.

    ``padding`` are the borders before each of them; behind them is as much as the output of
    ``shape`` needs. Borders are never larger than an element.
    """
    low, high = [0] * len(shape), [0] * len(shape)
    over = {}
    steps = zip(spatial, window, strides, dilation, padding, strict=True)
    for axis, size, stride, distance, border in steps:
        touched = (shape[axis] - 1) * stride + (size - 1) * distance + 1
        low[axis] = border
        high[axis] = max(0, int(touched - border - x.shape[axis]))
        over[axis] = (te.reduce_axis((0, size), f"k{axis}"), stride, distance)
    source = x
    if any(low) or any(high):
        source = topi.nn.pad(x, low, high, lowest(str(x.dtype)), name="pad")
    best = MAX.reducer()

    def at(*index: Any) -> Any:
        place = list(index)
        for axis, (tap, stride, distance) in over.items():
            place[axis] = index[axis] * stride + tap.var * distance
        return best(source(*place), axis=[tap for tap, _, _ in over.values()])

    return te.compute(shape, at, name="max_pool")
