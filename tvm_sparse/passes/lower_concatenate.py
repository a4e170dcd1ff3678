"""Concatenations become definitions whose pieces vector code can tell apart."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx

from tvm_sparse.passes.rewrite import Rewriter, op_name, rewrite, shape_of


def _lower(sweep: Rewriter, call: relax.Call) -> Any | None:
    if op_name(call) != "concat":
        return None
    operands = sweep.resolve(call.args[0])
    rank = len(shape_of(call) or ())
    if not isinstance(operands, relax.Tuple) or rank == 0 or len(operands.fields) < 2:
        return None
    axis = 0 if call.attrs.axis is None else int(call.attrs.axis) % rank
    extents = [(shape_of(field) or [None] * rank)[axis] for field in operands.fields]
    if not all(isinstance(extent, int) for extent in extents):
        return None
    return sweep.builder_.call_te(
        lambda *pieces: concatenate(pieces, axis),
        *operands.fields,
        primfunc_name_hint="concatenate",
    )


def concatenate(pieces: tuple[te.Tensor, ...], axis: int) -> te.Tensor:
    """Return tensors of static extents joined along ``axis``.

    The piece is found by halving. Conditions have the form ``index < end``: TVM sees that all
    lanes of a vector agree about them, which it does not for ``start <= index``, and then
    takes a vector apart (13 times as long for 11 pieces of 28 x 28 x 448).
    """
    bounds = [0, *itertools.accumulate(int(piece.shape[axis]) for piece in pieces)]

    def at(*index: Any) -> Any:
        def found(first: int, last: int) -> Any:
            if last - first == 1:
                inner = index[axis] - bounds[first]
                return pieces[first](*index[:axis], inner, *index[axis + 1 :])
            middle = (first + last) // 2
            before = index[axis] < bounds[middle]
            return tirx.if_then_else(before, found(first, middle), found(middle, last))

        return found(0, len(pieces))

    shape = list(pieces[0].shape)
    shape[axis] = tirx.IntImm("int64", bounds[-1])
    return te.compute(shape, at, name="concatenate")


@tvm.transform.module_pass(opt_level=0, name="LowerConcatenate")
@dataclass(frozen=True)
class LowerConcatenate:
    """Replace concatenations along an axis of static extents by definitions of ours.

    before: ``concat((a, b, c), axis)`` --> after: ``call_tir(concatenate, (a, b, c))``
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _lower)
