"""Functions of extents compute these in one order, whatever TVM's addresses are."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from tvm_sparse.schedules.blocks import map_functions, nodes

_ACCESSES: Any = (tirx.BufferStore, ir.TensorLoad)


@tvm.transform.module_pass(opt_level=0, name="OrderExtents")
class OrderExtents:
    """Sort what TVM's functions of extents write by its place.

    before: ``H[9] = 4 * H[0]; H[3] = 2 * H[0]`` --> after: ``H[3] = 2 * H[0]; H[9] = 4 * H[0]``

    TVM writes them in the order of their addresses in memory, which two compilations do not share:
    artifacts of one model would differ in their code.
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with such functions sorted."""
        return map_functions(mod, _sorted)


def _sorted(func: tirx.PrimFunc) -> tirx.PrimFunc:
    if len(func.params) != 1:
        return func
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.SeqStmt, _in_order)))


def _in_order(sequence: tirx.SeqStmt) -> tirx.SeqStmt:
    """Return independent writes of numbers to numbered places by these places."""
    stores = list(sequence.seq)
    if not all(_is_numbered(store) for store in stores):
        return sequence
    places = {int(store.indices[0]) for store in stores}
    reads = (load for store in stores for load in nodes(store.value, ir.TensorLoad))
    if any(not _is_numbered(load) or int(load.indices[0]) in places for load in reads):
        return sequence
    return tirx.SeqStmt(sorted(stores, key=lambda store: int(store.indices[0])))


def _is_numbered(access: Any) -> bool:
    """Whether ``access`` is a read, or a write, of a place whose number is known."""
    if not isinstance(access, _ACCESSES):
        return False
    return len(access.indices) == 1 and isinstance(access.indices[0], tirx.IntImm)
