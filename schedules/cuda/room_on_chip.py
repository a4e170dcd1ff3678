"""Tiles of open extents: what a thread block keeps of them on its chip has a known size."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.tirx.buffer import BufferType

from tvm_sparse.schedules.blocks import map_functions

_ROOM = tirx.const(1 << 30, "int64")
"""More than any tile has."""


@tvm.transform.module_pass(opt_level=0, name="RoomOnChip")
class RoomOnChip:
    """Declare buffers on chip with room instead of an open extent; TVM cuts them to a tile's part.

    before: ``xs[b, 16]`` in shared memory --> after: ``xs[2 ** 30, 16]``

    Of an open extent TVM would keep ``min(b, 64)``, and CUDA has no arrays of such a size.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such buffers."""
        return map_functions(mod, _with_room)


def _with_room(func: tirx.PrimFunc) -> tirx.PrimFunc:
    made: dict[Any, Any] = {}

    def declared(var: Any) -> Any:
        if not _is_open(var.ty):
            return var
        if var not in made:
            shape = [e if isinstance(e, tirx.IntImm) else _ROOM for e in var.ty.shape]
            scope = var.ty.storage_scope
            made[var] = tirx.decl_buffer(shape, var.ty.dtype, var.name, scope=scope)
        return made[var]

    body = tvm_ffi.structural_map(func.body, (tirx.Var, declared))
    return tirx.PrimFunc(func.params, body, func.ret_type, attrs=func.attrs) if made else func


def _is_open(ty: Any) -> bool:
    on_chip = isinstance(ty, BufferType) and ty.storage_scope.startswith(("local", "shared"))
    return on_chip and not all(isinstance(extent, tirx.IntImm) for extent in ty.shape)
