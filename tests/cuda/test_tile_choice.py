"""Which tile a thread block takes."""

from __future__ import annotations

import pytest

from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.mends import Mends, using
from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.tile_choice import (
    PART_BLOCKS,
    PART_STEPS,
    choose_step,
    choose_tile,
    parts_of,
)
from tvm_sparse.selection.cuda.tile_demand import Staging, tile_demand

H200 = load("h200")
DENSE = Staging(8192)
BANKS = Staging(8192, share=0.36, bank=32, keep=8)


def layer(rows, features=8192, columns=8192):
    return Contraction((rows,), columns, features, numerics=Numerics.uniform("float16"))


STEPS = [
    *((976, 64, 16), (8196, 64, 48), (784, 64, 16), (1000, 64, 48), (64, 64, 64), (147, 32, 32)),
    *((144, 48, 48), (100, 16, 16), (67, 16, 16), (27, 32, 32), (9, 16, 16), (1, 16, 16)),
]


@pytest.mark.parametrize(("columns", "step", "least"), STEPS)
def test_long_steps_unless_their_padding_is_long(columns, step, least):
    assert choose_step(columns, "float16") == step
    with using(Mends(step_padding=0.0)):
        assert choose_step(columns, "float16") == least


@pytest.mark.parametrize("staging", [DENSE, BANKS], ids=["dense", "banks"])
@pytest.mark.parametrize("rows", [16, 32, 64])
def test_few_rows_cut_the_reduction(rows, staging):
    tile = choose_tile(layer(rows), staging, H200)
    demand = tile_demand((rows, 8192), staging, tile, "float16", H200)
    assert tile.parts > 1
    assert demand.threads >= 4 * 32
    assert demand.blocks <= PART_BLOCKS * H200.sms
    assert demand.steps >= PART_STEPS


@pytest.mark.parametrize("staging", [DENSE, BANKS], ids=["dense", "banks"])
@pytest.mark.parametrize("rows", [256, 4096])
def test_many_rows_do_not(rows, staging):
    assert choose_tile(layer(rows), staging, H200).parts == 1


def test_parts_can_be_prescribed():
    for parts, wanted in ((1, 1), (4, 4), (5, 4)):
        with using(Mends(parts=parts)):
            assert choose_tile(layer(4096), DENSE, H200).parts == wanted


def test_parts_divide_the_steps_of_packed_weights():
    assert parts_of(layer(16), Staging(64 * 24), 64) == [2, 3]
    assert parts_of(layer(16), Staging(64 * 25), 64) == [2, 3]
    assert parts_of(layer(16), Staging(64 * 25, bank=32, keep=8), 64) == []
    # Eight steps for each part at least, and extents that are known.
    assert parts_of(layer(16), Staging(64 * 15), 64) == []
