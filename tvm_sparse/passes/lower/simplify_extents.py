"""Open extents have one form in operators and in what follows from them."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir.transform import PassContext

from tvm_sparse.passes.graph.known_extents import KnownExtents
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite, shape_of_type


@tvm.transform.module_pass(opt_level=0, name="SimplifyExtents")
class SimplifyExtents:
    """Simplify the extents of the results of calls, and of the tensors of functions.

    before: ``lv: (1 + n, 8) = call_tir(f, x)``, ``f(X: (1 + n, 8), Y: (1 + n, 8))``
    after:  ``lv: (n + 1, 8) = call_tir(f, x)``, ``f(X: (n + 1, 8), Y: (n + 1, 8))``

    TVM infers the extent of a concatenation as ``1 + n``, and makes loops of ``n + 1``. When it
    fuses functions it compares extents by their form. Of a slice it makes loops up to
    ``max(min(8, n), 0)``, as if ``n`` could be negative.
    """

    def transform_module(self, mod: tvm.IRModule, context: PassContext) -> tvm.IRModule:
        """Return the module with one form of each extent."""
        functions = dict(mod.functions_items())
        renewed: dict[str, ir.GlobalVar] = {}
        for name, function in mod.functions_items():
            simple = _simple(function) if isinstance(function, tirx.PrimFunc) else function
            if simple is not function:
                del functions[name]
                renewed[name.name_hint] = ir.GlobalVar(name.name_hint)
                relax.expr._update_type(renewed[name.name_hint], simple.ty)
                functions[renewed[name.name_hint]] = simple
        if not renewed and not _has_others(mod):
            return mod
        return _calling(tvm.IRModule(functions, attrs=mod.attrs), renewed)


def _has_others(mod: tvm.IRModule) -> bool:
    """Whether the result of a call has an extent in another form than the simple one."""
    found: list[Any] = []

    def look(call: Any) -> None:
        found.extend(ty for ty in call.ty_args if _simplified(ty) is not ty)

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            tvm_ffi.structural_walk(function, (ir.Call, look))
    return bool(found)


def _calling(mod: tvm.IRModule, renewed: dict[str, ir.GlobalVar]) -> tvm.IRModule:
    """Return ``mod`` with calls of the ``renewed`` functions, whose results are simple."""

    def rule(_rewriter: Rewriter, call: Any) -> Any | None:
        if not op_name(call).startswith("call_tir"):
            return None
        types = [_simplified(ty) for ty in call.ty_args]
        name = renewed.get(call.args[0].name_hint, call.args[0])
        return relax.Call(call.op, [name, *call.args[1:]], call.attrs, types)

    return rewrite(mod, rule)


def _simplified(ty: Any) -> Any:
    """Return a type with simple extents; the same one where they are simple."""
    if isinstance(ty, relax.TupleType):
        fields = [_simplified(field) for field in ty.fields]
        same = all(new is old for new, old in zip(fields, ty.fields, strict=True))
        return ty if same else relax.TupleType(fields)
    others = _others(ty)
    if not others:
        return ty
    return relax.TensorType([_simple_form(extent) for extent in ty.shape.values], ty.dtype)


def _simple(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a function whose tensors have simple extents; the same one where they have."""
    original = function
    # One after another: an extent may be a part of the next one, which then has another form.
    while others := [extent for param in function.params for extent in _others(param.ty)]:
        extent, simple = others[0], _simple_form(others[0])

        def placed(node: Any, extent: Any = extent, simple: Any = simple) -> Any:
            return simple if _equal(node, extent) else node

        changed = tvm_ffi.structural_map(function, (type(extent), placed))
        if changed.same_as(function):
            break
        function = changed
    if function is original:
        return function
    renewed = function.params, function.body, function.ret_type
    return tirx.PrimFunc(*renewed, attrs=function.attrs)  # whose type has the simple extents


def _others(ty: Any) -> list[Any]:
    """Return the computed extents of a type that are not in their simple form."""
    shape = shape_of_type(ty) or ()
    computed = (e for e in shape if not isinstance(e, int | tirx.Var | tirx.IntImm))
    return [extent for extent in computed if not _equal(_simple_form(extent), extent)]


def _simple_form(extent: Any) -> Any:
    """Return an extent in its simple form, which holds as no variable of it is negative."""
    variables: set[Any] = set()
    tvm_ffi.structural_walk(extent, (tirx.Var, variables.add))
    return KnownExtents(dict.fromkeys(variables, (0, None))).analyzer.simplify(extent)


def _equal(a: Any, b: Any) -> bool:
    return bool(tvm_ffi.structural_equal(a, b, map_free_vars=False))
