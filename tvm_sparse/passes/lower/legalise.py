"""Operators become loops, and a definition that fails ends the pass without words of TVM's own.

before: ``nn.relu(x)`` --> after: ``call_tir(relu, (x,))``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import relax
from tvm.ir.transform import PassContext

from tvm_sparse.passes.graph.stock import stock

Definition = Callable[[relax.BlockBuilder, relax.Call], Any]


@tvm.transform.module_pass(opt_level=0, name="Legalise")
class Legalise:
    """Define each operator by ``definitions``, those that are not among them by TVM's own.

    An error that leaves TVM's walk lets it tell stderr of the blocks that are left open. So the
    walk goes on, and the first error is raised behind it.
    """

    def __init__(self, definitions: Mapping[str, Definition]) -> None:
        self.definitions = definitions

    def transform_module(self, mod: tvm.IRModule, context: PassContext) -> tvm.IRModule:
        """Legalise every function of ``mod``."""
        errors: list[Exception] = []

        def caught(define: Definition) -> Definition:
            def defined(builder: relax.BlockBuilder, call: relax.Call) -> Any:
                try:
                    return define(builder, call)
                except Exception as error:
                    errors.append(error)
                    return call

            return defined

        names = {*self.definitions, *_operators(mod)}
        table = {name: caught(self.definitions.get(name, stock)) for name in sorted(names)}
        result = relax.transform.LegalizeOps(table)(mod)
        if errors:
            raise errors[0]
        return result


def _operators(mod: tvm.IRModule) -> set[str]:
    """Return the names of the operators in ``mod`` that have a definition in TVM."""
    found: set[Any] = set()
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(
                function, lambda e: found.add(e.op) if isinstance(e, relax.Call) else None
            )
    operators = [op for op in found if isinstance(op, tvm.ir.Op)]
    return {op.name for op in operators if op.get_attr("FLegalize") is not None}
