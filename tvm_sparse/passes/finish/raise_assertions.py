"""What a model asserts of its tensors is a result until here, then it is asserted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax

from tvm_sparse.passes.finish.return_tensor import MAIN
from tvm_sparse.passes.graph.builders import blocks_ended

ASSERTED = "asserted"
"""Attribute of ``main``: what is told where one of its last results is false."""


@tvm.transform.module_pass(opt_level=0, name="RaiseAssertions")
@dataclass(frozen=True)
class RaiseAssertions:
    """Assert the last results of ``main``, and return the others.

    before: ``y = f(x); t = g(n); return (y, t)``
    after:  ``t = g(n); assert_op(t, text); y = f(x); return (y,)``

    What depends on extents alone is asserted first: before memory is taken for sizes that the
    program was not traced for, and before anything reads behind a table.

    An assertion has an effect, and TVM's passes leave functions with effects as they are. Those
    ``apart`` are a function of their own, which TVM records in no graph of a GPU: they read memory
    of the device on the host.
    """

    apart: bool = False

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with assertions at the end of ``main``, if it asserts anything."""
        func = mod[MAIN]
        if not isinstance(func, relax.Function):
            return mod  # a function of loops, alone to find what fails
        texts = [str(text) for text in (func.attrs or {}).get(ASSERTED, ())]
        if not texts:
            return mod
        count = len(func.ret_ty.fields) - len(texts)
        builder = relax.BlockBuilder()
        attrs = {k: v for k, v in func.attrs.items() if k not in (ASSERTED, "global_symbol")}
        function = builder.function(MAIN, list(func.params), attrs=attrs, pure=False)
        with blocks_ended(builder), function:
            first = _of_extents(builder, func, count)
            self._assert(builder, [(held, texts[place]) for place, held in first.items()])
            results = builder.emit(relax.SeqExpr(func.body.blocks, func.body.body))
            rest = [place for place in range(len(texts)) if place not in first]
            held = [builder.emit(relax.TupleGetItem(results, count + place)) for place in rest]
            self._assert(builder, [(one, texts[i]) for one, i in zip(held, rest, strict=True)])
            outputs = [builder.emit(relax.TupleGetItem(results, i)) for i in range(count)]
            builder.emit_func_output(relax.Tuple(outputs))
        changed = mod.clone()
        built = builder.finalize()
        changed[MAIN] = built[MAIN].with_attr("global_symbol", MAIN)
        for name, other in built.functions_items():
            if name.name_hint != MAIN:
                changed[name] = other
        steps = [
            relax.transform.Normalize(),
            relax.transform.LegalizeOps(),  # assertions call a function of the virtual machine
            relax.transform.CanonicalizeBindings(),
            relax.transform.DeadCodeElimination(),
        ]
        return tvm.transform.Sequential(steps)(changed)

    def _assert(self, builder: relax.BlockBuilder, told: Sequence[tuple[Any, str]]) -> None:
        """Assert each value, or tell what stands beside it."""
        if told and self.apart:
            held, texts = zip(*told, strict=True)
            builder.emit(relax.Call(builder.add_func(_asserting(texts), "asserting"), held))
        else:
            _emit(builder, told)


def _of_extents(builder: relax.BlockBuilder, func: relax.Function, count: int) -> dict[int, Any]:
    """Compute the results of ``func`` behind the first ``count`` that extents of its inputs decide.

    Returned are these values by their place behind the first ones.
    """
    bindings = [binding for block in func.body.blocks for binding in block.bindings]
    values = {binding.var: binding.value for binding in bindings}
    results = values.get(func.body.body, func.body.body)
    extents = {v for p in func.params for v in relax.analysis.definable_tir_vars_in_type(p.ty)}
    done: dict[Any, Any] = {}

    def depends(value: Any) -> bool:
        """Whether a value depends on more than extents."""
        names = [name for name in relax.analysis.free_vars(value) if name not in extents]
        return any(name not in values or depends(values[name]) for name in names)

    def computed(value: Any) -> Any:
        """Return a value with its variables computed in the builder's block."""
        if isinstance(value, relax.Var) and value in values:
            if value not in done:
                done[value] = builder.emit(computed(values[value]))
            return done[value]
        if isinstance(value, relax.Tuple):
            return relax.Tuple([computed(field) for field in value.fields])
        if isinstance(value, relax.TupleGetItem):
            return relax.TupleGetItem(computed(value.tuple_value), value.index)
        if isinstance(value, relax.Call):
            args = [computed(arg) for arg in value.args]
            return relax.Call(value.op, args, value.attrs, value.ty_args)
        return value

    asserted = list(results.fields)[count:]
    return {i: computed(one) for i, one in enumerate(asserted) if not depends(one)}


def _asserting(texts: Sequence[str]) -> relax.Function:
    """Return a function that asserts its operands."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"t{i}", relax.TensorType((), "bool")) for i in range(len(texts))]
    function = builder.function("asserting", params, attrs={}, private=True, pure=False)
    with blocks_ended(builder), function:
        _emit(builder, list(zip(params, texts, strict=True)))
        builder.emit_func_output(params[0])  # the virtual machine wants a result of a function
    return builder.finalize()["asserting"]


def _emit(builder: relax.BlockBuilder, told: Sequence[tuple[Any, str]]) -> None:
    for one, text in told:
        builder.emit(relax.op.assert_op(one, [tvm.ir.StringImm(text)], format="{}"))
