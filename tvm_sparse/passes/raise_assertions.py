"""What a model asserts of its tensors is a result until here, then it is asserted."""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import relax

from tvm_sparse.passes.builders import blocks_ended
from tvm_sparse.passes.return_tensor import MAIN

ASSERTED = "asserted"
"""Attribute of ``main``: what is told where one of its last results is false."""


@tvm.transform.module_pass(opt_level=0, name="RaiseAssertions")
@dataclass(frozen=True)
class RaiseAssertions:
    """Assert the last results of ``main``, and return the others.

    before: ``return (y, t)`` --> after: ``assert_op(t, text); return (y,)``

    An assertion has an effect, and TVM's passes leave functions with effects as they are.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with assertions at the end of ``main``, if it asserts anything."""
        func = mod[MAIN]
        texts = [str(text) for text in (func.attrs or {}).get(ASSERTED, ())]
        if not texts:
            return mod
        count = len(func.ret_ty.fields) - len(texts)
        builder = relax.BlockBuilder()
        attrs = {k: v for k, v in func.attrs.items() if k not in (ASSERTED, "global_symbol")}
        function = builder.function(MAIN, list(func.params), attrs=attrs, pure=False)
        with blocks_ended(builder), function:
            results = builder.emit(relax.SeqExpr(func.body.blocks, func.body.body))
            for place, text in enumerate(texts):
                held = builder.emit(relax.TupleGetItem(results, count + place))
                builder.emit(relax.op.assert_op(held, [tvm.ir.StringImm(text)], format="{}"))
            outputs = [builder.emit(relax.TupleGetItem(results, i)) for i in range(count)]
            builder.emit_func_output(relax.Tuple(outputs))
        changed = mod.clone()
        changed[MAIN] = builder.finalize()[MAIN].with_attr("global_symbol", MAIN)
        steps = [
            relax.transform.Normalize(),
            relax.transform.LegalizeOps(),  # assertions call a function of the virtual machine
            relax.transform.CanonicalizeBindings(),
            relax.transform.DeadCodeElimination(),
        ]
        return tvm.transform.Sequential(steps)(changed)
