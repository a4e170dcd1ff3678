"""number_rows: a block iterates over rows as the block before it numbers them."""

from __future__ import annotations

import pytest
from tvm import s_tir, te, tirx

from tvm_sparse.schedules import blocks as b


def copied(extents):
    """Return the schedule of a copy of a tensor with 16 features behind ``extents``."""
    x = te.placeholder((*extents, 16), "float32", "X")
    return s_tir.Schedule(te.create_prim_func([x, te.compute(x.shape, x, "copy")]))


@pytest.mark.parametrize(
    ("extents", "rows", "found"),
    [
        ((2, 6, 7), (), [84]),
        ((2, 6, 7), (84,), [84]),
        ((2, 6, 7), (2, 42), [2, 42]),
        ((2, 6, 7), (2, 2, 21), [2, 2, 21]),
        ((2, 6, 7), (2, 6, 7), [2, 6, 7]),
        ((1, 1, 7), (1, 7), [1, 7]),
        ((1, 1, 1), (1, 1), [1, 1]),
        ((5,), (), [5]),
        ((5,), (5,), [5]),
    ],
    ids=str,
)
def test_rows_are_those_of_the_block_before(extents, rows, found):
    sch = copied([tirx.const(e, "int64") for e in extents])
    block = sch.get_sblock("copy")
    b.number_rows(sch, block, *[[tirx.const(e, "int64") for e in rows] for _ in rows[:1]])
    assert [int(axis.dom.extent) for axis in sch.get(block).iter_vars] == [*found, 16]
