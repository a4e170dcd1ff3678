"""The lowest values around a tensor become the borders of the max pooling that reads it."""

from __future__ import annotations

import math
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.base.numerics import is_float
from tvm_sparse.passes.graph.padding import border_widths
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite

_POOLS = {f"nn.max_pool{rank}d": getattr(relax.op.nn, f"max_pool{rank}d") for rank in (1, 2, 3)}


@tvm.transform.module_pass(opt_level=0, name="PadPools")
class PadPools:
    """Let max pooling have borders of its own, where the network puts minus infinity around before.

    before: ``max_pool(pad(x, -inf))``
    after:  ``max_pool(x)`` with borders

    PyTorch's pooling has the same border on both sides: what exporters write for others is a pad.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with borders in max pooling."""
        return rewrite(mod, _bordered)


def _bordered(rewriter: Rewriter, call: relax.Call) -> Any | None:
    operator = _POOLS.get(op_name(call))
    if operator is None or call.attrs.ceil_mode:
        return None
    pad = rewriter.resolve(call.args[0])
    if op_name(pad) != "nn.pad":
        return None
    attrs, layout = call.attrs, str(call.attrs.layout)
    widths = border_widths(pad, layout)
    lowest = is_float(str(call.ty.dtype)) and float(pad.attrs.pad_value) == -math.inf
    if widths is None or not lowest:
        return None
    return operator(
        pad.args[0],
        attrs.pool_size,
        strides=attrs.strides,
        padding=[int(a) + b for a, b in zip(attrs.padding, widths, strict=True)],
        dilation=attrs.dilation,
        layout=layout,
        out_layout=attrs.out_layout,
    )
