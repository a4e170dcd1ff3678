"""Sorts, scans, gathers and scatters along an axis become functions of our own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, te, tirx, topi

from tvm_sparse.ops.scan import scan
from tvm_sparse.ops.scatter import REDUCTIONS, gather, scatter
from tvm_sparse.ops.sort import argsort, position_type
from tvm_sparse.ops.top import FEW, top
from tvm_sparse.passes.known_places import Take
from tvm_sparse.passes.rewrite import Rewriter, count_uses, op_name, rewrite


def _argsort(sweep: Rewriter, call: relax.Call) -> Any:
    return _called(sweep, "argsort", lambda x: _order(x, call, str(call.ty.dtype)), call.args[0])


def _sort(sweep: Rewriter, call: relax.Call) -> Any:
    def sort(x: te.Tensor) -> te.Tensor:
        axis = int(call.attrs.axis)
        return gather(x, _order(x, call, position_type(x.shape[axis])), axis)

    return _called(sweep, "sort", sort, call.args[0])


def _order(x: te.Tensor, call: relax.Call, dtype: str) -> te.Tensor:
    descending = bool(call.attrs.descending)
    return argsort(x, int(call.attrs.axis), descending=descending, dtype=dtype)


def _topk(sweep: Rewriter, call: relax.Call) -> Any:
    attrs = call.attrs
    axis, count = int(attrs.axis) % len(call.args[0].ty.shape), int(attrs.k)

    def topk(x: te.Tensor) -> Any:
        options: Any = {"descending": bool(attrs.largest), "dtype": str(attrs.dtype)}
        if 0 < count <= FEW and isinstance(x.shape[axis], tirx.IntImm):
            order = top(x, axis, count, **options)
        else:
            order = argsort(x, axis, **options)
            shape = [count if i == axis else extent for i, extent in enumerate(order.shape)]
            order = te.compute(shape, order, name="first") if count > 0 else order
        wanted = {"values": [gather(x, order, axis)], "indices": [order]}
        found = wanted.get(str(attrs.ret_type), [gather(x, order, axis), order])
        return found if len(found) > 1 else found[0]

    return _called(sweep, "topk", topk, call.args[0])


def _scan(sweep: Rewriter, call: relax.Call) -> Any:
    attrs, name = call.attrs, op_name(call)
    dtype = str(call.ty.dtype)

    def run(x: te.Tensor) -> te.Tensor:
        axis = attrs.axis
        if axis is None:
            x, axis = topi.reshape(x, [topi.utils.prod(x.shape)]), 0
        product, exclusive = name == "cumprod", bool(attrs.exclusive)
        return scan(x, int(axis), product=product, dtype=dtype, exclusive=exclusive)

    return _called(sweep, name, run, call.args[0])


def _gather(sweep: Rewriter, call: relax.Call) -> Any:
    axis = int(call.attrs.axis)
    return _called(sweep, "gather", lambda x, i: gather(x, i, axis), *call.args)


def _scatter(sweep: Rewriter, call: relax.Call) -> Any | None:
    axis, reduction = int(call.attrs.axis), str(call.attrs.reduction)
    if reduction not in REDUCTIONS:
        return None
    return _called(sweep, "scatter", lambda x, i, u: scatter(x, i, u, axis, reduction), *call.args)


def _called(sweep: Rewriter, hint: str, define: Callable[..., Any], *operands: Any) -> Any:
    """Return a call of the function that ``define`` describes on tensor expressions."""
    return sweep.builder_.call_te(define, *operands, primfunc_name_hint=hint)


_RULES = {
    "argsort": _argsort,
    "sort": _sort,
    "topk": _topk,
    "cumsum": _scan,
    "cumprod": _scan,
    "gather_elements": _gather,
    "scatter_elements": _scatter,
}


@tvm.transform.module_pass(opt_level=0, name="LowerLines")
@dataclass(frozen=True)
class LowerLines:
    """Replace operators whose order of work, or places in memory, are no plain loops'.

    before: ``sort(x, axis=1)`` --> after: ``call_tir(sort, (x,))``

    TVM's own call a library that is no part of the runtime, lose NaN, and read and write outside
    of tensors where an index is wild.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        main = mod["main"]
        take = Take(count_uses(main), relax.analysis.get_var2val(main))

        def lower(sweep: Rewriter, call: relax.Call) -> Any | None:
            rule = _RULES.get(op_name(call), take)
            return rule(sweep, call)

        return rewrite(mod, lower)
