"""Transpositions that move the contiguous axis become functions that move tiles in registers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.numerics import FLOAT_SUMS
from tvm_sparse.ops.permute import Permutation, permute
from tvm_sparse.passes.quantisation import BYTES
from tvm_sparse.passes.rewrite import Rewriter, op_name, rewrite, static_shape


def _lower(sweep: Rewriter, call: relax.Call) -> Any | None:
    if op_name(call) != "permute_dims" or str(call.ty.dtype) not in (FLOAT_SUMS, *BYTES):
        return None
    shape = static_shape(call.args[0])
    if shape is None or 0 in shape:
        return None
    axes = call.attrs.axes
    order = range(len(shape))[::-1] if axes is None else [int(a) % len(shape) for a in axes]
    plain = Permutation.of(shape, order)
    if not (plain.turns_tiles() if str(call.ty.dtype) == FLOAT_SUMS else plain.interleaves()):
        return None
    extents = call.ty.shape.values
    return sweep.builder_.call_te(
        lambda x: permute(x, plain, extents), call.args[0], primfunc_name_hint="permute"
    )


@tvm.transform.module_pass(opt_level=0, name="LowerPermutes")
@dataclass(frozen=True)
class LowerPermutes:
    """Replace transpositions of whole tiles of fp32, and of a few planes of bytes.

    Others keep TVM's definition, which fuses.

    before: ``permute_dims(x, [0, 2, 3, 1])``
    after:  ``call_tir(permute, (x,))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _lower)
