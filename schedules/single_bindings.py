"""Every variable is bound once in a function."""

from __future__ import annotations

import tvm
from tvm import s_tir, tirx

from tvm_sparse.schedules.blocks import map_functions


@tvm.transform.module_pass(opt_level=0, name="SingleBindings")
class SingleBindings:
    """Give variables of their own to what is written out in several places of a function.

    before: ``y[0] = (let v = a[0] in v * v)``, ``y[1] = (let v = a[1] in v * v)``
    after:  ``y[0] = (let v = a[0] in v * v)``, ``y[1] = (let w = a[1] in w * w)``

    Schedules inline a block into several readers, and passes write a body once for whole vectors
    and once for the rest. TVM's analysis fails on a variable that is bound to two values.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with variables that are bound once."""
        return map_functions(mod, single_bindings)


def single_bindings(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return ``func`` with variables that are bound once.

    It is renamed alone: TVM renames what several functions share, but not in the buffers of blocks.
    Open extents, which are variables, would then have two names in one function.
    """
    alone = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    changed = s_tir.transform.ConvertSSA()(alone)["main"]
    return (
        func
        if changed.body.same_as(func.body)
        else tirx.PrimFunc(changed.params, changed.body, changed.ret_type, attrs=func.attrs)
    )
