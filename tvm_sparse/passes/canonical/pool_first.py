"""Average pooling moves before the 1x1 convolution whose result it shrinks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    count_uses,
    op_name,
    rewrite,
    same_shape,
    shape_of,
    static_shape,
)


@dataclass(frozen=True)
class _Move:
    """The rule; ``uses`` tells who else reads a convolution."""

    uses: dict[Any, int]

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        if op_name(call) != "nn.avg_pool2d" or any(int(s) < 2 for s in call.attrs.strides):
            return None
        conv = rewriter.resolve(call.args[0])
        if not _pointwise(conv) or self.uses.get(rewriter.original.args[0]) != 1:
            return None
        x, weight = conv.args
        pooled = rewriter.emit(relax.Call(call.op, [x], call.attrs))
        moved = rewriter.builder_.normalize(relax.Call(conv.op, [pooled, weight], conv.attrs))
        return moved if same_shape(shape_of(moved), shape_of(call)) else None


def _pointwise(conv: Any) -> bool:
    """Whether ``conv`` mixes channels of single pixels: no taps, strides, borders or groups."""
    if op_name(conv) != "nn.conv2d":
        return False
    attrs, kernel = conv.attrs, static_shape(conv.args[1])
    ones = kernel is not None and kernel[2:] == (1, 1) and int(attrs.groups) == 1
    plain = (str(attrs.data_layout), str(attrs.kernel_layout)) == ("NCHW", "OIHW")
    strides = [int(s) for s in attrs.strides]
    return ones and plain and strides == [1, 1] and not any(int(p) for p in attrs.padding)


@tvm.transform.module_pass(opt_level=0, name="PoolFirst")
@dataclass(frozen=True)
class PoolFirst:
    """Pool with strides before a 1x1 convolution: it then has a fraction of the pixels.

    before: ``avg_pool2d(conv2d(x, w1x1))`` --> after: ``conv2d(avg_pool2d(x), w1x1)``

    Both are linear, one over channels and one over pixels, so they may change places; zeros that
    the pooling pads stay zeros, and with 2x2 windows a quarter of the multiplications is left
    (transitions of DenseNet).
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with smaller convolutions."""
        uses: dict[Any, int] = {}
        for _name, func in mod.functions_items():
            if isinstance(func, relax.Function):
                uses |= count_uses(func)
        return rewrite(mod, _Move(uses))
