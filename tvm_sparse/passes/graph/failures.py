"""What TVM raises inside a pass becomes an error of ours that names the operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_sparse.base.words import aside, said
from tvm_sparse.errors import SparseError, UnsupportedError
from tvm_sparse.passes.graph.builders import blocks_ended
from tvm_sparse.passes.graph.rewrite import errors_through_tvm, layer_name, name_of, op_name

Step = Callable[[tvm.IRModule], Any]


def applied(step: Step, mod: tvm.IRModule, action: str) -> Any:
    """Return ``step(mod)``.

    Raises
    ------
    SparseError
        As a rule of ours raised it, or with the operator that fails when it is alone in a module.
        ``action`` says what should have been done to it.
    """
    try:
        return _tried(step, mod)
    except SparseError:
        raise
    except Exception as error:
        raise UnsupportedError(
            _culprit(step, mod),
            f"cannot be {action}{aside(said(error))}",
            "operators and shapes that TVM compiles",
            "write the layer with other operators, or compile the model without it",
        ) from error


def _tried(step: Step, mod: tvm.IRModule) -> Any:
    with errors_through_tvm():
        return step(mod)


def _culprit(step: Step, mod: tvm.IRModule) -> str:
    """Return the name of the first part of ``mod`` that fails alone, or ``"model"``."""
    for name, alone in _parts(mod):
        try:
            _tried(step, alone)
        except Exception:
            return name
    return "model"


def _parts(mod: tvm.IRModule) -> Iterator[tuple[str, tvm.IRModule]]:
    """Yield each function of loops and each call of an operator in a module of its own."""
    for name, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            alone = func.with_attr("global_symbol", "main")
            yield f"function '{name.name_hint}'", tvm.IRModule({"main": alone})
    calls: list[relax.Call] = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(
                func.body, lambda e: calls.append(e) if _is_operator(e) else None
            )
    for call in calls:
        alone = _alone(call)
        if alone is not None:
            yield _described(call), alone


def _is_operator(expr: relax.Expr) -> bool:
    """Whether ``expr`` calls an operator: not a function of the module or a library."""
    functions = (tvm.ir.GlobalVar, relax.ExternFunc)
    return bool(op_name(expr)) and not any(isinstance(a, functions) for a in expr.args)


def _alone(call: relax.Call) -> tvm.IRModule | None:
    """Return a module whose ``main`` is ``call``, with variables for its operands."""
    params = [
        relax.Var(f"x{i}", a.ty) if isinstance(a, relax.Var) else a for i, a in enumerate(call.args)
    ]
    free = [p for p in params if isinstance(p, relax.Var)]
    builder = relax.BlockBuilder()
    try:
        with blocks_ended(builder), builder.function("main", free):
            with builder.dataflow():
                out = builder.emit_output(relax.Call(call.op, params, call.attrs, call.ty_args))
            builder.emit_func_output(out)
        return builder.get()
    except Exception:
        return None  # operands that are no tensors


def _described(call: relax.Call) -> str:
    """Return the operator of ``call``, and the layer if one of its operands is a weight."""
    weight = next((a for a in call.args if name_of(a)), None)
    given = ", ".join(_type(a.ty) for a in call.args if isinstance(a.ty, relax.TensorType))
    name = f"operator '{op_name(call)}' of {given}"
    return name if weight is None else f"layer '{layer_name(weight)}', {name}"


def _type(ty: relax.TensorType) -> str:
    """Return what a message calls the type and the shape of a tensor."""
    extents = [str(int(e)) if isinstance(e, tirx.IntImm) else "?" for e in ty.shape or ()]
    return f"{ty.dtype}[{', '.join(extents)}]"
