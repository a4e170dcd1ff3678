"""Merge two operators, and what is computed between them, into one function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_sparse.ops.marks import FUSION, OUT_FUSABLE
from tvm_sparse.passes.graph.builders import blocks_ended

Between = Callable[[relax.BlockBuilder, Any, list[Any]], Any]
"""``(builder, result of the first operator, operands)`` -> input of the second one."""


def merge(
    first: tirx.PrimFunc,
    second: tirx.PrimFunc,
    between: Between = lambda builder, x, operands: x,
    operands: tuple[Any, ...] = (),
) -> tirx.PrimFunc:
    """Return ``f(X, *arrays, *operands, *more arrays, Y)``: ``second(between(first(X)))``.

    Parameters
    ----------
    first, second
        Operators ``f(X, *arrays, Y)``.
    between
        Emits element-wise Relax operators, which become blocks of the function.
    operands
        Relax types of further tensors that ``between`` reads.
    """
    builder = relax.BlockBuilder()
    named = ((first, "first"), (second, "second"))
    calls = [builder.add_func(f.without_attr("global_symbol"), name) for f, name in named]
    head, tail = _types(first), _types(second)
    types = [*head[:-1], *operands, *tail[1:-1]]
    inner, outer = (
        [relax.Var(f"{prefix}{i}", ty) for i, ty in enumerate(types)] for prefix in "pq"
    )
    split = len(head) - 1, len(head) - 1 + len(operands)
    function = builder.function("merged", inner, attrs={"Primitive": 1}, private=True)
    with blocks_ended(builder), function:
        with builder.dataflow():
            result = builder.emit(relax.call_tir(calls[0], inner[: split[0]], out_ty=head[-1]))
            x = between(builder, result, inner[split[0] : split[1]])
            arguments = [x, *inner[split[1] :]]
            out = builder.emit_output(relax.call_tir(calls[1], arguments, out_ty=tail[-1]))
        builder.emit_func_output(out)
    merged = builder.get().get_global_var("merged")
    with blocks_ended(builder), builder.function("main", outer):
        with builder.dataflow():
            out = builder.emit_output(relax.Call(merged, outer))
        builder.emit_func_output(out)
    steps = [relax.transform.LegalizeOps(), relax.transform.FuseTIR()]
    mod = tvm.transform.Sequential(steps)(builder.finalize())
    (func,) = (f for _, f in mod.functions_items() if isinstance(f, tirx.PrimFunc))
    return func.with_attr(FUSION, OUT_FUSABLE)


def _types(func: tirx.PrimFunc) -> list[Any]:
    """Return the Relax types of a function's parameters."""
    return [relax.TensorType([int(e) for e in p.ty.shape], str(p.ty.dtype)) for p in func.params]
