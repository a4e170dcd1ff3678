"""Floats are rounded by the instruction that machines have for it."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_sparse.ops.bytes.rounding import Nearest
from tvm_sparse.schedules.blocks import map_functions


@tvm.transform.module_pass(opt_level=0, name="RoundDirectly")
class RoundDirectly:
    """Round in one instruction instead of two.

    before: ``x + 1.5 * 2**23 - 1.5 * 2**23``
    after: ``llvm.roundeven(x)``

    Where the integer has limits, bits of ``x`` are compared with bits of the limits, as before.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with calls of LLVM's function."""
        return map_functions(mod, _rounded)


def _rounded(func: tirx.PrimFunc) -> tirx.PrimFunc:
    body = tvm_ffi.structural_map(func.body, (tirx.Sub, _direct))
    if body.same_as(func.body):
        return func
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _direct(difference: tirx.Sub) -> Any:
    """Return ``difference`` by the instruction, if it is what rounding in two makes."""
    found = Nearest.of(difference)
    return difference if found is None else found.by(_round_even)


def _round_even(value: Any) -> Any:
    return tirx.call_llvm_pure_intrin(str(value.ty.dtype), "llvm.roundeven", value)
