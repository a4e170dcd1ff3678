"""What a model asserts of its tensors is a result until here, then it is asserted."""

from __future__ import annotations

from dataclasses import dataclass

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

    before: ``return (y, t)`` --> after: ``assert_op(t, text); return (y,)``

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
            results = builder.emit(relax.SeqExpr(func.body.blocks, func.body.body))
            held = [builder.emit(relax.TupleGetItem(results, count + i)) for i in range(len(texts))]
            if self.apart:
                builder.emit(relax.Call(builder.add_func(_asserting(texts), "asserting"), held))
            else:
                _assert(builder, held, texts)
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


def _asserting(texts: list[str]) -> relax.Function:
    """Return a function that asserts its operands."""
    builder = relax.BlockBuilder()
    params = [relax.Var(f"t{i}", relax.TensorType((), "bool")) for i in range(len(texts))]
    function = builder.function("asserting", params, attrs={}, private=True, pure=False)
    with blocks_ended(builder), function:
        _assert(builder, params, texts)
        builder.emit_func_output(params[0])  # the virtual machine wants a result of a function
    return builder.finalize()["asserting"]


def _assert(builder: relax.BlockBuilder, held: list[relax.Var], texts: list[str]) -> None:
    for one, text in zip(held, texts, strict=True):
        builder.emit(relax.op.assert_op(one, [tvm.ir.StringImm(text)], format="{}"))
