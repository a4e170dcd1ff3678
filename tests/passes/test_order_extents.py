"""What functions of extents write is sorted by its place, where no write reads another one."""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_sparse.passes.finish.order_extents import OrderExtents


def _written(pairs):
    """Return the places that a function writes in turn: each from the place beside it."""
    places = tirx.decl_buffer((16,), "int64", "H")
    stores = [tirx.BufferStore(places, 2 * tirx.BufferLoad(places, [a]), [b]) for a, b in pairs]
    func = tirx.PrimFunc([places], tirx.SeqStmt(stores))
    found = OrderExtents()(tvm.IRModule({"shape_func": func}))["shape_func"]
    return [int(store.indices[0]) for store in found.body.seq]


def test_independent_writes_are_sorted():
    assert _written([(0, 9), (1, 3), (0, 12), (0, 4)]) == [3, 4, 9, 12]


def test_a_write_that_reads_another_stays_behind_it():
    assert _written([(0, 9), (9, 3)]) == [9, 3]
