"""Functions of extents say, as all others do, that their arguments lie apart in memory."""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_sparse.schedules.blocks import map_functions

NO_ALIAS = "tirx.noalias"


@tvm.transform.module_pass(opt_level=0, name="ApartInMemory")
class ApartInMemory:
    """Mark TVM's functions of extents, which have one argument, as ours are marked.

    before: ``shape_func(H)`` --> after: ``shape_func(H)`` with ``tirx.noalias``

    One function without that mark takes it from all functions of a module on CPUs: LLVM then keeps
    sums in memory instead of registers. Convolutions with an open batch took three times as long.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions marked."""
        return map_functions(mod, _marked)


def _marked(func: tirx.PrimFunc) -> tirx.PrimFunc:
    alone = len(func.params) == 1
    return func.with_attr(NO_ALIAS, True) if alone and NO_ALIAS not in func.attrs else func
