"""Adaptive pooling: on CPUs windows by rows and shuffles, those of lines in whole vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from tvm import relax, te

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.tensors import avg_pool
from tvm_sparse.ops.tensors.line_pool import fits, line_pool
from tvm_sparse.ops.tensors.row_pool import MAXIMUM, Pooling, mean, row_pool
from tvm_sparse.ops.tensors.window_maxima import ADAPTIVE
from tvm_sparse.ops.tensors.windows import Shares, chunks_of
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, static_shape
from tvm_sparse.passes.graph.stock import stock

_MEANS = tuple(f"nn.adaptive_avg_pool{rank}d" for rank in (1, 2, 3))

Define: TypeAlias = Callable[[te.Tensor], te.Tensor]


def lower_adaptive(rewriter: Rewriter, call: relax.Call) -> Any | None:
    """Return an adaptive pooling of fp32 by vectors, ``None`` if ``call`` is none."""
    if op_name(call) in _MEANS:
        plain = str(call.attrs.layout).startswith("NC")
        plain = plain and str(call.attrs.out_layout) in ("", str(call.attrs.layout))
        rank, largest = len(str(call.attrs.layout)) - 2 if plain else 0, False
        x = call.args[0]
    elif op_name(call) == "call_tir":
        attrs = rewriter.module[call.args[0]].attrs
        rank, largest = int(attrs.get(ADAPTIVE, 0)) if attrs else 0, True
        x = call.args[1][0] if rank else None
    else:
        return None
    define = _definition(x, call, rank, largest=largest) if rank else None
    if define is None:
        return None
    name = f"adaptive_{'max' if largest else 'avg'}_pool{rank}d"
    return rewriter.builder_.call_te(define, x, primfunc_name_hint=name)


def share_means(builder: relax.BlockBuilder, call: relax.Call) -> Any:
    """Define adaptive average pooling as a sum, which GPUs have schedules for."""
    before, after, layout = static_shape(call.args[0]), static_shape(call), str(call.attrs.layout)
    if before is None or after is None or str(call.attrs.out_layout) not in ("", layout):
        return stock(builder, call)
    spatial = [axis for axis, letter in enumerate(layout) if letter not in "NC"]
    shares = {axis: Shares(before[axis], after[axis]) for axis in spatial}
    return builder.call_te(
        lambda x: avg_pool.share_means(x, shares),
        call.args[0],
        primfunc_name_hint=op_name(call)[3:],
    )


ON_THREADS = {f"relax.{name}": share_means for name in _MEANS}
"""Definitions for GPUs, instead of those of all targets."""


def _definition(x: Any, call: relax.Call, rank: int, *, largest: bool) -> Define | None:
    before, after = static_shape(x), static_shape(call)
    if before is None or after is None or 0 in (*before, *after):
        return None
    if str(call.ty.dtype) != FLOAT_SUMS:
        return None
    axes = [Shares(*extents) for extents in zip(before[-rank:], after[-rank:], strict=True)]
    pooling: Pooling = MAXIMUM if largest else mean(axes, counts_borders=False)
    chunks = chunks_of(axes[-1], shorter=True)
    if chunks is not None:
        return lambda x: row_pool(x, axes, chunks, pooling)
    if all(axis.extent == axis.count == 1 for axis in axes[:-1]) and fits(axes[-1]):
        return lambda x: line_pool(x, axes[-1], pooling)
    return None
