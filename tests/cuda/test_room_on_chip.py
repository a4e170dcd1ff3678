"""RoomOnChip: tiles of open extents have a known size on chip, and nothing else changes."""

from __future__ import annotations

import pytest
import tvm
from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.schedules.cuda.room_on_chip import RoomOnChip

ROOM = str(1 << 30)


def doubled(rows, scope: str) -> tvm.IRModule:
    """Return a function that copies ``rows`` rows by way of a buffer in ``scope``."""
    columns = tirx.const(16, "int64")
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        x = T.arg("X", T.Buffer((rows, columns), "float32"))
        with T.sblock("root"):
            own = T.sblock_alloc_buffer([rows, columns], "float32", scope=scope)
            with T.grid(rows, columns) as axes, T.sblock("stage"):
                row, column = T.axis.remap("SS", axes)
                T.reads(x[row, column])
                T.writes(own[row, column])
                T.buffer_store(own, x[row, column] * 2.0, [row, column])
    return tvm.IRModule({"main": builder.get()})


@pytest.mark.parametrize(
    ("scope", "known"),
    [("shared", True), ("shared.dyn", True), ("local", True), ("global", False)],
)
def test_open_extents_on_chip_have_room(scope, known):
    before = doubled(tirx.Var("n", "int64"), scope)
    after = RoomOnChip()(before)
    assert ROOM not in before.script(), "the pass wrote into its input"
    assert (ROOM in after.script()) == known


def test_known_extents_stay():
    before = doubled(tirx.const(64, "int64"), "shared")
    tvm.ir.assert_structural_equal(RoomOnChip()(before), before)
