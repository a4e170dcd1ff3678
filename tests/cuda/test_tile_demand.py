"""What the model says of a tile is what the executor counts of the kernel's PTX."""

from __future__ import annotations

import pytest

from benchmarks.gpu.shrunk import STEPS, counts
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import Emulator
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.tile_banks import TileBanksFormat
from tvm_sparse.formats.two_four import TwoFourFormat
from tvm_sparse.ops.cuda.tile import ThreadBlockTile
from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.tile_demand import staging_of, tile_demand

H200 = load("h200")
SIZE = (512, 512)


@pytest.fixture(scope="module")
def emulator():
    with Emulator(parse_target("cuda:h200").target) as there:
        yield there


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize(
    ("format", "tile", "dtype"),
    [
        (DenseFormat(*SIZE, lanes=64), (64, 64, 64), "float16"),
        (DenseFormat(*SIZE, lanes=32), (16, 32, 64), "float32"),
        (TileBanksFormat(*SIZE, keep=8, bank=32, lanes=64, step=64), (16, 64, 64), "float16"),
        (BlockFormat(*SIZE, 32, 32, Buckets((Bucket(16, 4),))), (32, 32, 64), "float16"),
        (TwoFourFormat(*SIZE, lanes=64, step=64), (16, 64, 64), "float16"),
        (DenseFormat(*SIZE, lanes=1), (64, 64, 128), "int8"),
        (DenseFormat(*SIZE, lanes=1), (16, 64, 64), "int8"),
        (TileBanksFormat(*SIZE, keep=8, bank=32, lanes=64, step=64), (16, 64, 64), "int8"),
    ],
    ids=["dense", "dense, float32", "banks", "blocks", "2:4", "bytes", "few bytes", "byte banks"],
)
def test_counts(format, tile, dtype, emulator):
    """Counts hold the epilogue, too; instructions are those of lanes."""
    tile = ThreadBlockTile(*tile)
    demand = tile_demand(
        (tile.rows, 2 * tile.features), staging_of(format, dtype), tile, dtype, H200
    )
    found = counts(format, tile, tile.rows, dtype, emulator)
    assert found["waits"] == 1
    assert 0.75 < demand.passes / found["shared_passes"] < 1.15
    assert demand.fed == pytest.approx(found["load_bytes"], rel=0.08)
    assert 0.65 < demand.issued / (found["instructions"] / 32) < 1.35


def test_steps_waves_and_the_rest_follow_from_the_tile():
    format = TileBanksFormat(*SIZE, keep=8, bank=32, lanes=64, step=64)
    tile = ThreadBlockTile(16, 64, 64)
    demand = tile_demand((100, 512), staging_of(format, "float16"), tile, "float16", H200)
    assert (demand.blocks, demand.steps, demand.threads) == (7 * 8, STEPS, 128)
    assert (demand.banks, demand.chain, demand.lookups) == (1, 1, 0)
    assert demand.products == 16 * 64 * 64


@pytest.mark.parametrize(("keep", "chain"), [(16, 1), (24, 24)])
def test_values_of_full_banks_wait_for_one_another(keep, chain):
    """A thread holds 16 values of a bank at most: more are loaded and stored in turns."""
    format = TileBanksFormat(*SIZE, keep=keep, bank=32, lanes=64, step=64)
    tile = ThreadBlockTile(16, 64, 64)
    demand = tile_demand((100, 512), staging_of(format, "float16"), tile, "float16", H200)
    assert demand.chain == chain
