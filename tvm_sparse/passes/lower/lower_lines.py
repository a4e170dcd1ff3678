"""Sorts, scans, gathers and scatters along an axis become functions of our own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import tvm
from tvm import relax, te, tirx, topi

from tvm_sparse.ops.tensors.scan import scan
from tvm_sparse.ops.tensors.scatter import REDUCTIONS, gather, scatter, scatter_rows
from tvm_sparse.ops.tensors.sort import argsort, position_type
from tvm_sparse.ops.tensors.top import FEW, top
from tvm_sparse.passes.graph.rewrite import (
    Rewriter,
    count_uses,
    op_name,
    rewrite,
    same_shape,
    shape_of,
)
from tvm_sparse.passes.lower.known_places import Take

Rule: TypeAlias = Callable[[Rewriter, relax.Call], Any]
"""Returns what stands for an operator's call, ``None`` where it stays."""


def _argsort(rewriter: Rewriter, call: relax.Call) -> Any:
    return called(rewriter, "argsort", lambda x: _order(x, call, str(call.ty.dtype)), call.args[0])


def _sort(rewriter: Rewriter, call: relax.Call) -> Any:
    def sort(x: te.Tensor) -> te.Tensor:
        axis = int(call.attrs.axis)
        return gather(x, _order(x, call, position_type(x.shape[axis])), axis)

    return called(rewriter, "sort", sort, call.args[0])


def _order(x: te.Tensor, call: relax.Call, dtype: str) -> te.Tensor:
    descending = bool(call.attrs.descending)
    return argsort(x, int(call.attrs.axis), descending=descending, dtype=dtype)


def _topk(rewriter: Rewriter, call: relax.Call) -> Any:
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

    return called(rewriter, "topk", topk, call.args[0])


def scan_by(define: Callable[..., te.Tensor]) -> Rule:
    """Return the rule for running sums and products as ``define`` computes them."""
    return partial(_scan, define)


def _scan(define: Callable[..., te.Tensor], rewriter: Rewriter, call: relax.Call) -> Any:
    attrs, name = call.attrs, op_name(call)
    dtype = str(call.ty.dtype)

    def run(x: te.Tensor) -> te.Tensor:
        axis = attrs.axis
        if axis is None:
            x, axis = topi.reshape(x, [topi.utils.prod(x.shape)]), 0
        product, exclusive = name == "cumprod", bool(attrs.exclusive)
        return define(x, int(axis), product=product, dtype=dtype, exclusive=exclusive)

    return called(rewriter, name, run, call.args[0])


def gathered(rewriter: Rewriter, call: relax.Call) -> Any:
    """Return a call that picks elements; repeated rows are not written out before."""
    axis = int(call.attrs.axis)
    x, indices = call.args
    rows = _of_rows(rewriter, indices, axis % len(x.ty.shape))
    shape = list(indices.ty.shape.values)
    given = indices if rows is None else rows
    return called(rewriter, "gather", lambda x, i: gather(x, i, axis, shape), x, given)


def _scatter(rewriter: Rewriter, call: relax.Call) -> Any | None:
    reduction = str(call.attrs.reduction)
    if reduction not in REDUCTIONS:
        return None
    x, indices, updates = call.args
    axis = int(call.attrs.axis) % len(x.ty.shape)
    rows, shape, theirs = _of_rows(rewriter, indices, axis), shape_of(x), shape_of(updates)
    define: Callable[..., te.Tensor]
    if rows is None or shape is None or theirs is None or not _are_rows(shape, theirs, axis):
        define, given = scatter, indices
    else:
        define, given = scatter_rows, rows
    return called(
        rewriter, "scatter", lambda x, i, u: define(x, i, u, axis, reduction), x, given, updates
    )


def _are_rows(ours: list[Any], theirs: list[Any], axis: int) -> bool:
    """Whether a tensor has the rows of another one, of known extents behind ``axis``."""
    inside = ours[axis + 1 :]
    if not all(isinstance(extent, int) for extent in inside) or inside != theirs[axis + 1 :]:
        return False
    return same_shape(ours[:axis], theirs[:axis])


def _of_rows(rewriter: Rewriter, indices: Any, axis: int) -> Any | None:
    """Return what ``indices`` are before they were repeated along all axes behind ``axis``.

    before: ``broadcast_to(i: (9, 1), (9, 64))`` --> ``i``
    """
    value, types = rewriter.resolve(indices), []
    while op_name(value) == "astype":
        types.append(str(value.ty.dtype))
        value = rewriter.resolve(value.args[0])
    if op_name(value) != "broadcast_to":
        return None
    source, rank = value.args[0], len(indices.ty.shape)
    extents = shape_of(source)
    if extents is None:
        return None
    extents = [1] * (rank - len(extents)) + extents
    inside = extents[axis + 1 :]
    if not inside or any(not isinstance(e, int) or e != 1 for e in inside):
        return None
    if len(extents) > len(shape_of(source) or ()):
        source = rewriter.emit(relax.op.reshape(source, extents))
    for dtype in reversed(types):
        source = rewriter.emit(relax.op.astype(source, dtype))
    return source


def called(rewriter: Rewriter, hint: str, define: Callable[..., Any], *operands: Any) -> Any:
    """Return a call of the function that ``define`` describes on tensor expressions."""
    return rewriter.builder_.call_te(define, *operands, primfunc_name_hint=hint)


ON_CORES: Mapping[str, Rule] = {
    "argsort": _argsort,
    "sort": _sort,
    "topk": _topk,
    "cumsum": scan_by(scan),
    "cumprod": scan_by(scan),
    "gather_elements": gathered,
    "scatter_elements": _scatter,
}
"""How a CPU's cores do it: a line is the work of one, in vectors where lines lie side by side."""


@tvm.transform.module_pass(opt_level=0, name="LowerLines")
@dataclass(frozen=True)
class LowerLines:
    """Replace operators whose order of work, or places in memory, are no plain loops'.

    before: ``sort(x, axis=1)`` --> after: ``call_tir(sort, (x,))``

    TVM's own call a library that is no part of the runtime, lose NaN, and read and write outside
    of tensors where an index is wild. ``rules`` are those of a target, ``takes`` says whether
    columns at constant places are shuffles there.
    """

    rules: Mapping[str, Rule] = field(default_factory=lambda: ON_CORES)
    takes: bool = True

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        main = mod["main"]
        take = Take(count_uses(main), relax.analysis.get_var2val(main))

        def lower(rewriter: Rewriter, call: relax.Call) -> Any | None:
            rule = self.rules.get(op_name(call), take if self.takes else None)
            return None if rule is None else rule(rewriter, call)

        return rewrite(mod, lower)
