"""Functions that a library may compute learn how; our own code stays what they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401  NumPy learns of bfloat16
import numpy as np
import tvm
from tvm import ir, relax, s_tir, tirx

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.names import layer_of_array
from tvm_sparse.ops.marks import LIBRARY
from tvm_sparse.passes.graph.rewrite import Rewriter, constant, name_of, op_name, rewrite
from tvm_sparse.passes.lower.library_calls import LibraryCall, asks, library_call
from tvm_sparse.selection.decisions import Decisions

ABSENT = -1
"""Place of a parameter that a call does not have."""


NOT_ASKED = "its call has nothing of what is behind the product before the result is rounded"
"""Why a library is not asked though it was chosen: convolutions and 2:4 products have one type."""


@tvm.transform.module_pass(opt_level=0, name="PlanLibraryCalls")
@dataclass(frozen=True)
class PlanLibraryCalls:
    """Write into functions with a product for a library which parameters a call takes.

    before: ``f(x, w, bias, y)`` --> after: the same, with the attribute ``ts.library``: places of
    parameters, numbers, and the function of what is left behind the call

    A bias in single precision that is exact in the type of the result becomes one more parameter,
    in that type: libraries take no other. Layers that no call can be made for are ours; the
    ``decisions`` then say so.
    """

    decisions: Decisions = field(default_factory=Decisions, repr=False)

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions."""
        found = {
            name.name_hint: call
            for name, func in mod.functions_items()
            if isinstance(func, tirx.PrimFunc) and (call := library_call(func)) is not None
        }
        inexact = _inexact(mod, found)
        functions, planned = dict(mod.functions_items()), set[str]()
        for name, whole in found.items():
            call = library_call(mod[name], with_bias=False) if name in inexact else whole
            if call is not None:
                planned.add(name)
                del functions[mod.get_global_var(name)]
                for new, func in _planned(mod[name], call, name).items():
                    renewed = ir.GlobalVar(new)
                    relax.expr._update_type(renewed, func.ty)
                    functions[renewed] = func
        for layer in _unasked(mod, planned):
            self.decisions.give_back(layer, NOT_ASKED)
        narrowed = {name: call for name, call in found.items() if call.narrowed}
        kept = {name: call for name, call in narrowed.items() if name not in inexact}
        return _calling(tvm.IRModule(functions, attrs=mod.attrs), found, kept) if found else mod


def _unasked(mod: tvm.IRModule, planned: set[str]) -> set[str]:
    """Return the layers of functions that are to ask a library, but have no plan for it."""
    layers: set[str] = set()

    def look(expr: relax.Expr) -> None:
        name = expr.args[0].name_hint if op_name(expr) == "call_tir" else ""
        if name and name not in planned and asks(mod[name]):
            layers.update(layer_of_array(name_of(operand)) for operand in expr.args[1].fields)

    for _name, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func.body, look)
    return layers


def _planned(func: tirx.PrimFunc, call: LibraryCall, name: str) -> dict[str, tirx.PrimFunc]:
    """Return ``func`` with the attribute and a parameter for a narrowed bias, and what is behind.

    The latter is called by nobody yet: it is public, so that it stays.
    """
    params = list(func.params)
    bias = call.bias
    if call.narrowed:
        bias = tirx.decl_buffer(list(bias.shape), call.dtype, "narrow_bias")
        params.insert(len(params) - 1, bias)
    weights = [_place(params, one) for one in call.weights]
    x, *others = (_place(params, one) for one in (call.x, bias, call.residual, call.out))
    attrs: dict[str, Any] = {**call.asked, "places": [x, weights[0], *others]}
    attrs["dtype"] = call.dtype
    attrs |= {"relu": int(call.relu), "weights": weights}
    functions = {}
    if call.behind:
        rest, behind = f"{name}_behind", _behind(func, call)
        functions[rest] = behind.with_attr("global_symbol", rest)
        attrs |= {"behind": rest, "read": [_place(params, one) for one in behind.params[1:]]}
    made = tirx.PrimFunc(params, func.body, func.ret_type, attrs=func.attrs)
    return {name: made.with_attr(LIBRARY, attrs), **functions}


def _behind(func: tirx.PrimFunc, call: LibraryCall) -> tirx.PrimFunc:
    """Return ``f(out of the call, *params, result)`` of the nests behind."""
    read = [p for p in func.params[:-1] if any(nest.reads(p) for nest in call.behind)]
    arrays = func.body.block.alloc_buffers
    own = [b for b in arrays if any(nest.written.same_as(b) for nest in call.behind)]
    body = [nest.statement for nest in call.behind]
    whole = tirx.SeqStmt(body) if len(body) > 1 else body[0]
    realize = s_tir.SBlockRealize([], True, s_tir.SBlock([], [], [], "root", whole, None, own))
    params = [call.out, *read, func.params[-1]]
    return tirx.PrimFunc(params, realize, func.ret_type, attrs=func.attrs)


def _place(params: list[Any], buffer: Any) -> int:
    found = (i for i, param in enumerate(params) if buffer is not None and param.same_as(buffer))
    return next(found, ABSENT)


def _narrow(rewriter: Rewriter, operand: Any, dtype: str) -> Any | None:
    """Return a constant in another type; None if it is none, or not exact in it."""
    const = rewriter.constant(operand)
    if const is None:
        return None
    value = array_of(const)
    narrow = value.astype(np.dtype(dtype))
    exact = np.array_equal(narrow.astype(value.dtype), value)
    return constant(narrow, name_of(const)) if exact else None


def _inexact(mod: tvm.IRModule, found: dict[str, LibraryCall]) -> set[str]:
    """Return the functions that some call gives a bias which is not exact in the result's type."""
    names: set[str] = set()

    def rule(rewriter: Rewriter, call: Any) -> None:
        name = call.args[0].name_hint if op_name(call) == "call_tir" else ""
        if name in found and found[name].narrowed:
            at = _place(list(mod[name].params), found[name].bias)
            if _narrow(rewriter, call.args[1].fields[at], found[name].dtype) is None:
                names.add(name)

    rewrite(mod, rule)
    return names


def _calling(
    mod: tvm.IRModule, found: dict[str, LibraryCall], narrowed: dict[str, LibraryCall]
) -> tvm.IRModule:
    """Return ``mod`` with calls of the functions as they are now."""

    def rule(rewriter: Rewriter, call: Any) -> Any | None:
        if op_name(call) != "call_tir" or call.args[0].name_hint not in found:
            return None
        name, operands = call.args[0].name_hint, list(call.args[1].fields)
        if name in narrowed:
            at = _place(list(mod[name].params), narrowed[name].bias)
            operands.append(_narrow(rewriter, operands[at], narrowed[name].dtype))
        args = [mod.get_global_var(name), relax.Tuple(operands), *call.args[2:]]
        return relax.Call(call.op, args, call.attrs, call.ty_args)

    return rewrite(mod, rule)
