"""What a library makes of packed weights is made once, when a program begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import tvm
from tvm import ir, relax, tirx

from tvm_sparse.formats.two_four import TwoFourFormat
from tvm_sparse.ops.cuda.two_four import unpacked
from tvm_sparse.ops.marks import LIBRARY
from tvm_sparse.passes.graph.builders import blocks_ended
from tvm_sparse.passes.graph.rewrite import Rewriter, add_function, op_name, rewrite

PREPARE = "prepare"
"""How functions of a program are called that unpack a weight: its number stands behind."""

HANDLE = relax.TensorType([1], "uint8")
"""The type of what it makes: a handle, behind which lies as much as the library wants."""


@tvm.transform.module_pass(opt_level=0, name="CompressWeights")
@dataclass(frozen=True)
class CompressWeights:
    """Give functions whose library wants another form of the weights a parameter for that.

    before: ``main(x, v, i): f(x, v, i)`` --> after: ``main(x, v, i, c): f(x, v, i, c)`` and
    ``prepare0(v, i): unpacked(v, i)``

    When a program begins, the runtime calls such functions one after another with all weights, and
    lets the library compress what they return. TVM would capture calls of the library as a graph.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such parameters behind the weights of ``main``."""
        functions = _asking(mod)
        if not functions:
            return mod
        weights = list(mod["main"].params)[int(mod["main"].attrs["num_input"]) :]
        handles = _handles(mod["main"], functions)
        prepared = _preparing(mod, weights, handles)
        return rewrite(_wider(prepared, functions, handles), _Calls(functions, handles))


Packed: TypeAlias = tuple[relax.Var, ...]
"""The arrays of a weight."""


@dataclass(frozen=True)
class _Handle:
    """What ``main`` is given of a weight, and a function that reads it."""

    var: relax.Var
    func: tirx.PrimFunc


Handles: TypeAlias = dict[Packed, _Handle]


def _asking(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """Return such functions by their names; those of constants that stay in the code ask nobody."""
    asking = {
        name.name_hint: func
        for name, func in mod.functions_items()
        if isinstance(func, tirx.PrimFunc) and _wants_another_form(func)
    }
    params = set(mod["main"].params)

    def look(expr: relax.Expr) -> None:
        name = _asked(expr, asking)
        if name and not params.issuperset(_packed(asking[name], expr)):
            mod.update_func(expr.args[0], asking.pop(name).without_attr(LIBRARY))

    for _name, func in mod.functions_items():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(func.body, look)
    return asking


def _asked(expr: Any, asking: Mapping[str, tirx.PrimFunc]) -> str:
    """Return which of the functions an expression calls; empty if none."""
    name = expr.args[0].name_hint if op_name(expr) == "call_tir" else ""
    return name if name in asking else ""


def _wants_another_form(func: tirx.PrimFunc) -> bool:
    return LIBRARY in (func.attrs or {}) and len(func.attrs[LIBRARY]["tiles"]) > 0


def _packed(func: tirx.PrimFunc, call: Any) -> Packed:
    """Return the arrays of the weight of a call."""
    return tuple(call.args[1].fields[int(place)] for place in func.attrs[LIBRARY]["weights"])


def _handles(main: relax.Function, asking: Mapping[str, tirx.PrimFunc]) -> Handles:
    """Return a handle for each weight, in the order in which ``main`` reads them."""
    found: Handles = {}

    def look(expr: relax.Expr) -> None:
        if name := _asked(expr, asking):
            var = relax.Var(f"compressed{len(found)}", HANDLE)
            found.setdefault(_packed(asking[name], expr), _Handle(var, asking[name]))

    relax.analysis.post_order_visit(main.body, look)
    return found


def _wider(
    mod: tvm.IRModule, asking: Mapping[str, tirx.PrimFunc], handles: Handles
) -> tvm.IRModule:
    """Return ``mod`` whose functions take handles, and ``main`` all of them."""
    functions, main = dict(mod.functions_items()), mod["main"]
    for name, func in asking.items():
        del functions[mod.get_global_var(name)]
        renewed, wider = ir.GlobalVar(name), _with_handle(func)
        relax.expr._update_type(renewed, wider.ty)
        functions[renewed] = wider
    params = [*main.params, *(handle.var for handle in handles.values())]
    wide = relax.Function(params, main.body, main.ret_ty, main.is_pure, main.attrs)
    functions[mod.get_global_var("main")] = wide
    return tvm.IRModule(functions, attrs=mod.attrs)


def _with_handle(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with a handle before its result, which is what its library reads."""
    attrs, params = dict(func.attrs[LIBRARY]), list(func.params)
    last = len(params) - 1
    params.insert(last, tirx.decl_buffer([1], "uint8", "compressed"))
    x, _w, *rest = (int(place) for place in attrs["places"])
    attrs["places"] = [x, last, *(place + (place >= last) for place in rest)]
    attrs["read"] = [int(place) + (int(place) >= last) for place in attrs.get("read", ())]
    wider = tirx.PrimFunc(params, func.body, func.ret_type, attrs=func.attrs)
    return wider.with_attr(LIBRARY, attrs)


@dataclass(frozen=True)
class _Calls:
    """The rule that gives calls their handles."""

    asking: Mapping[str, tirx.PrimFunc]
    handles: Handles

    def __call__(self, rewriter: Rewriter, call: Any) -> Any | None:
        name = _asked(call, self.asking)
        if not name:
            return None
        handle = self.handles[_packed(self.asking[name], call)]
        func = rewriter.builder_.get().get_global_var(name)
        operands = relax.Tuple([*call.args[1].fields, handle.var])
        return relax.Call(call.op, [func, operands, *call.args[2:]], call.attrs, call.ty_args)


def _preparing(mod: tvm.IRModule, weights: list[relax.Var], handles: Handles) -> tvm.IRModule:
    """Return ``mod`` with functions that unpack weights, one for each handle."""
    builder = relax.BlockBuilder(mod)
    for number, (packed, handle) in enumerate(handles.items()):
        own = {weight: relax.Var(weight.name, weight.ty) for weight in weights}
        attrs = {"num_input": len(own)}
        function = builder.function(f"{PREPARE}{number}", list(own.values()), attrs=attrs)
        with blocks_ended(builder), function:
            with builder.dataflow():
                dense = _unpacked(builder, handle.func, [own[array] for array in packed])
                dense = builder.emit_output(dense)
            builder.emit_func_output(dense)
    return builder.get()


def _unpacked(builder: relax.BlockBuilder, func: tirx.PrimFunc, packed: list[relax.Var]) -> Any:
    """Return the call of a kernel that unpacks the weight of ``func``."""
    asked = func.attrs[LIBRARY]
    features, columns, *tile = (int(n) for n in (*asked["numbers"], *asked["tiles"]))
    dtype = str(packed[0].ty.dtype)
    kernel = unpacked(TwoFourFormat(features, columns, *tile), dtype)
    name = add_function(builder, kernel, "unpacked")
    return relax.call_tir(name, packed, out_ty=relax.TensorType([features, columns], dtype))
