"""Layers whose rows lie along several open axes have one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_sparse.ops.marks import PADDING
from tvm_sparse.passes.finish.single_axis import Joined, single_axis
from tvm_sparse.passes.graph.called import arguments_of
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite


@tvm.transform.module_pass(opt_level=0, name="JoinAxes")
@dataclass(frozen=True)
class JoinAxes:
    """Number the rows of linear layers, pointwise convolutions and norms over all their open axes.

    before: ``f(X: (b, h, w, 64), V, Y: (b, h, w, 32))``
    after:  ``f(X: (n, 64), V, Y: (n, 32))``, which is given views and whose result is seen as one

    A register tile then spans the end of a line and the begin of the next one: in lines of their
    own, 12 pixels took as long as 16. Results that the next layer wants with borders, or that
    leave the program, stay. All do for several ``threads``, which share lines.
    """

    threads: int = 1

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions."""
        if self.threads > 1:
            return mod
        functions, joined = dict(mod.functions_items()), dict[str, Joined]()
        kept = _kept(mod)
        for name in arguments_of(mod):
            var = mod.get_global_var(name)
            alike = name not in kept and isinstance(mod[var], tirx.PrimFunc)
            found = single_axis(mod[var]) if alike else None
            if found is not None:
                del functions[var]
                joined[name] = found
                functions[found.named(name)] = found.func
        if not joined:
            return mod

        def rule(rewriter: Rewriter, call: Any) -> Any | None:
            one = joined.get(call.args[0].name_hint) if op_name(call) == "call_tir" else None
            return None if one is None else one.called(rewriter, call)

        return rewrite(tvm.IRModule(functions, attrs=mod.attrs), rule)


def _kept(mod: tvm.IRModule) -> set[str]:
    """Return the functions whose results leave ``main``, have several parts, or get borders."""
    found = set[str]()
    for func in mod.functions.values():
        if not isinstance(func, relax.Function):
            continue
        bindings = [b for block in func.body.blocks for b in block.bindings]
        calls = {b.var: b.value for b in bindings if op_name(b.value).startswith("call_tir")}
        wanted = [b.var for b in bindings if not isinstance(b.var, relax.DataflowVar)]
        for binding in bindings:
            value, inside = binding.value, isinstance(binding.var, relax.DataflowVar)
            wanted += value.fields if isinstance(value, relax.Tuple) and not inside else []
            if binding.var in calls and PADDING in (mod[value.args[0]].attrs or {}):
                wanted += value.args[1].fields
        wanted += [v for v, c in calls.items() if isinstance(c.ty, relax.TupleType)]
        wanted += [v for v, c in calls.items() if op_name(c) != "call_tir"]
        found |= {calls[var].args[0].name_hint for var in wanted if var in calls}
    return found
