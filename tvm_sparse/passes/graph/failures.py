"""What TVM raises inside a pass becomes an error of ours that names the operator."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.sym import Analyzer

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
        _refuse_unlike_extents(mod, error)
        raise UnsupportedError(
            _culprit(step, mod),
            f"cannot be {action}{aside(said(error))}",
            "operators and shapes that TVM compiles",
            "write the layer with other operators, or compile the model without it",
        ) from error


def _tried(step: Step, mod: tvm.IRModule) -> Any:
    with errors_through_tvm():
        return step(mod)


def _refuse_unlike_extents(mod: tvm.IRModule, cause: Exception) -> None:
    """Refuse the first operator that has no loops as nothing tells the shape of its result.

    That is so where extents of its operands have to be equal, and TVM cannot prove that they are.
    """
    for call in _operators(mod):
        if call.op.get_attr("FLegalize") is None or not isinstance(call.ty, relax.TensorType):
            continue
        unlike = _unlike_extents(call) if call.ty.shape is None else None
        if unlike is not None:
            raise UnsupportedError(
                _described(call),
                "has operands whose extents {!r} and {!r} cannot be compared".format(*unlike),
                "extents that are equal for all inputs",
                "fix one of the open extents of the inputs, or give it bounds",
            ) from cause


def _unlike_extents(call: relax.Call) -> tuple[str, str] | None:
    """Return the first two extents of operands that may differ, and are not joined or broadcast."""
    shapes = [list(t.shape) for t in _operands(call) if t.shape is not None]
    concat = op_name(call) == "concat"
    joined = getattr(call.attrs, "axis", None) if concat else None
    known = Analyzer()
    for first, other in itertools.combinations(shapes, 2):
        for back, (a, b) in enumerate(zip(reversed(first), reversed(other), strict=False), 1):
            at_joined = joined is not None and int(joined) % len(first) == len(first) - back
            broadcast = not concat and any(isinstance(e, tirx.IntImm) and e == 1 for e in (a, b))
            if not at_joined and not broadcast and not known.can_prove_equal(a, b):
                return _extent(a), _extent(b)
    return None


def _operands(call: relax.Call) -> list[relax.TensorType]:
    """Return the types of the tensors that ``call`` takes, alone or in a tuple."""
    given = [f for a in call.args for f in (a.ty.fields if hasattr(a.ty, "fields") else [a.ty])]
    return [ty for ty in given if isinstance(ty, relax.TensorType)]


def _extent(extent: Any) -> str:
    """Return an extent without the types of its numbers."""
    return re.sub(r"T\.int64\((-?\d+)\)", r"\1", str(extent))


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
            called = _called(name, func)
            if called is not None:
                yield f"function '{name.name_hint}'", called
    for call in _operators(mod):
        alone = _alone(call)
        if alone is not None:
            yield _described(call), alone


def _operators(mod: tvm.IRModule) -> list[relax.Call]:
    """Return the calls of operators in ``mod``."""
    calls: list[relax.Call] = []
    for func in mod.functions.values():
        if isinstance(func, relax.Function):
            relax.analysis.post_order_visit(
                func.body, lambda e: calls.append(e) if _is_operator(e) else None
            )
    return calls


def _called(name: tvm.ir.GlobalVar, func: tirx.PrimFunc) -> tvm.IRModule | None:
    """Return a module whose ``main`` calls ``func``, or None where it takes more than arrays."""
    arrays = [p.ty for p in func.params]
    if not arrays or not all(isinstance(a, tirx.BufferType) for a in arrays):
        return None
    *given, made = [relax.TensorType(list(a.shape), a.dtype) for a in arrays]
    params = [relax.Var(f"x{i}", ty) for i, ty in enumerate(given)]

    def result(builder: relax.BlockBuilder) -> Any:
        return relax.call_tir(builder.add_func(func, name.name_hint), params, made)

    return _module(params, result)


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
    return _module(free, lambda _: relax.Call(call.op, params, call.attrs, call.ty_args))


def _module(
    params: list[relax.Var], result: Callable[[relax.BlockBuilder], Any]
) -> tvm.IRModule | None:
    """Return a module whose ``main`` returns ``result``; None for types that no operand has."""
    builder = relax.BlockBuilder()
    try:
        with blocks_ended(builder), builder.function("main", params):
            with builder.dataflow():
                out = builder.emit_output(result(builder))
            builder.emit_func_output(out)
        return builder.get()
    except Exception:
        return None


def _described(call: relax.Call) -> str:
    """Return the operator of ``call``, and the layer if one of its operands is a weight."""
    weight = next((a for a in call.args if name_of(a)), None)
    given = ", ".join(_type(ty) for ty in _operands(call))
    name = f"operator '{op_name(call)}' of {given}"
    return name if weight is None else f"layer '{layer_name(weight)}', {name}"


def _type(ty: relax.TensorType) -> str:
    """Return what a message calls the type and the shape of a tensor."""
    extents = [str(int(e)) if isinstance(e, tirx.IntImm) else "?" for e in ty.shape or ()]
    return f"{ty.dtype}[{', '.join(extents)}]"
