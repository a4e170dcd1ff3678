"""Small variables of a function live in registers and on the stack."""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import DataType, tirx
from tvm.tirx.buffer import BufferType

from tvm_sparse.schedules.blocks import map_functions

_MOST_BYTES = 1024
"""TVM asks its allocator for as much, and for more."""


@tvm.transform.module_pass(opt_level=0, name="StackVariables")
class StackVariables:
    """Declare small local variables in the default scope.

    before: ``T.decl_buffer([16], scope="local")`` --> after: ``T.decl_buffer([16])``

    A CPU has registers and a stack. Yet for each variable of the scope "local" TVM calls its
    allocator in each call of the function, which takes 25 ns. LLVM then stores what it could leave
    in registers.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with other scopes."""
        return map_functions(mod, _on_stack)


def _on_stack(func: tirx.PrimFunc) -> tirx.PrimFunc:
    moved: dict[Any, Any] = {}

    def place(var: Any) -> Any:
        if not _is_small_local(var.ty):
            return var
        if var not in moved:
            moved[var] = tirx.decl_buffer(list(var.ty.shape), var.ty.dtype, var.name)
        return moved[var]

    body = tvm_ffi.structural_map(func.body, (tirx.Var, place))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs)


def _is_small_local(ty: Any) -> bool:
    if not isinstance(ty, BufferType) or ty.storage_scope != "local":
        return False
    if not all(isinstance(extent, tirx.IntImm) for extent in ty.shape):
        return False
    return math.prod(map(int, ty.shape)) * DataType(str(ty.dtype)).itemsize < _MOST_BYTES
