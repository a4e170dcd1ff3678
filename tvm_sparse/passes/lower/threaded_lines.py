"""Sorts, scans, gathers and scatters along an axis on GPUs, for :class:`LowerLines`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from tvm import relax, te, tirx

from tvm_sparse.ops.cuda.scan import scan
from tvm_sparse.ops.cuda.sort import merged, ranked, widths
from tvm_sparse.ops.tensors.scatter import REDUCTIONS, gather, scatter
from tvm_sparse.ops.tensors.sort import ordered, position_type
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name
from tvm_sparse.passes.lower.lower_lines import Rule, called, gathered, scan_by


def _argsort(rewriter: Rewriter, call: relax.Call) -> Any:
    attrs, dtype = call.attrs, str(call.ty.dtype)
    return _order(rewriter, call.args[0], int(attrs.axis), bool(attrs.descending), dtype)


def _sort(rewriter: Rewriter, call: relax.Call) -> Any:
    (x,), attrs = call.args, call.attrs
    axis = int(attrs.axis)
    dtype = position_type(x.ty.shape.values[axis])
    order = _order(rewriter, x, axis, bool(attrs.descending), dtype)
    return called(rewriter, "sort", lambda x, order: gather(x, order, axis), x, order)


def _topk(rewriter: Rewriter, call: relax.Call) -> Any:
    (x,), attrs = call.args, call.attrs
    axis, count = int(attrs.axis) % len(x.ty.shape), int(attrs.k)
    order = _order(rewriter, x, axis, bool(attrs.largest), str(attrs.dtype))
    wanted = ("values", "indices") if str(attrs.ret_type) == "both" else (str(attrs.ret_type),)

    def first(x: te.Tensor, order: te.Tensor) -> Any:
        shape = [tirx.const(count, "int64") if i == axis else e for i, e in enumerate(x.shape)]
        places = te.compute(shape, order, name="first")
        found = [places if name == "indices" else gather(x, places, axis) for name in wanted]
        return found if len(found) > 1 else found[0]

    return called(rewriter, "topk", first, x, order)


def _order(rewriter: Rewriter, x: Any, axis: int, descending: bool, dtype: str) -> Any:
    """Emit the sort of positions along ``axis``: runs of them, then merges in pairs."""

    def step(name: str, define: Any, *operands: Any) -> Any:
        return rewriter.emit(called(rewriter, name, define, *operands))

    keys = step("key", ordered, x) if _has_own_order(x) else x
    order = step("ranked", partial(ranked, axis=axis, descending=descending, dtype=dtype), keys)
    for width in widths(x.ty.shape.values[axis]):
        merge = partial(merged, axis=axis, width=width, descending=descending)
        order = step("merged", merge, keys, order)
    return order


def _has_own_order(x: Any) -> bool:
    """Whether the values of ``x`` must become integers to be compared: NaN is the largest."""
    return "int" not in str(x.ty.dtype)


def _scatter(rewriter: Rewriter, call: relax.Call) -> Any | None:
    axis, reduction = int(call.attrs.axis), str(call.attrs.reduction)
    if reduction not in REDUCTIONS:
        return None

    def define(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return scatter(x, indices, updates, axis, reduction, columns=1)

    return called(rewriter, op_name(call), define, *call.args)


ON_THREADS: Mapping[str, Rule] = {
    "argsort": _argsort,
    "sort": _sort,
    "topk": _topk,
    "cumsum": scan_by(scan),
    "cumprod": scan_by(scan),
    "gather_elements": gathered,
    "scatter_elements": _scatter,
}
"""How a GPU's threads do it: TVM's own scans have races, its sorts lose NaN, its scatters fail."""
