"""Banks on Hopper's tensor cores: of any size, and when they are chosen."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cuda.hopper import (
    ARCH,
    HALF,
    LIMIT,
    check_exact,
)
from tests.cuda.kernels import needs_nvrtc, target
from tests.cuda.wgmma_kinds import KINDS, balanced, kept
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.swizzled_banks import SwizzledBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma import WgmmaTile
from tvm_sparse.ops.cuda.wgmma_weights import banks
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cuda import bank_options
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.wgmma_option import seconds, tile_of

BANKS = KINDS["banks"]


@needs_nvrtc
@pytest.mark.parametrize(("keep", "bank"), [(16, 64), (2, 16), (1, 4), (11, 128)])
def test_banks_of_any_size_and_zeros_anywhere(hopper, keep, bank):
    c = Contraction((9,), 328, 70, numerics=HALF)
    matrix = balanced(keep, bank)(c)
    check_exact(hopper, c, matrix, BANKS.operator(c, (16, 64, 8), matrix))


@needs_nvrtc
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_tiles_without_a_nonzero_are_passed_over(hopper, share):
    c = Contraction((9,), 640, 200, numerics=HALF)
    mask = np.random.default_rng(3).random((4, 10)) < share
    matrix = balanced(8, 32)(c) * np.repeat(np.repeat(mask, 64, 0), 64, 1)[:200]
    format = SwizzledBanksFormat.of(matrix)
    assert format.kept == mask.sum()
    check_exact(hopper, c, matrix, BANKS.operator(c, (16, 64, 8), matrix))


@pytest.mark.parametrize(
    ("rows", "arch", "dtype", "keep", "kernel"),
    [
        (64, "sm_90a", "float16", 3, "wgmma"),
        (32, "sm_90a", "bfloat16", 8, "wgmma"),
        (4, "sm_90a", "float16", 8, "stream"),
        (64, "sm_90", "float16", 8, "tile"),
        (64, "sm_90a", "float32", 8, "tile"),
        (64, "sm_90a", "float16", 20, "tile"),
    ],
)
def test_hopper_alone_has_them(rows, arch, dtype, keep, kernel):
    c = Contraction((rows,), 4096, 8192, numerics=Numerics.uniform(dtype))
    scan = Scan(kept(c.matrix_shape, keep).astype("f4"))
    (found,) = bank_options.balanced(c, scan, target(arch))
    assert found.kernel == kernel


def test_joint_masks_have_them_too():
    c = Contraction((64,), 4096, 8192, numerics=HALF)
    tiles = np.random.default_rng(0).random((128, 64)) < 0.5
    mask = kept(c.matrix_shape, 8) * np.repeat(np.repeat(tiles, 64, 0), 64, 1)
    (found,) = bank_options.joint(c, Scan(mask.astype("f4")), target(ARCH))
    assert (found.name, found.kernel) == ("joint", "wgmma")
    assert found.format.kept == tiles.sum()


@pytest.mark.parametrize("rows", [1, 33, 100, 700])
@pytest.mark.parametrize("slots", [1, 16])
@pytest.mark.parametrize("result", [2, 4])
def test_tiles_fit_the_shared_memory(rows, slots, result):
    tile = tile_of(rows, 64, LIMIT, result, banks(slots))
    assert tile.nbytes(result) <= LIMIT
    assert tile.stages >= 6
    assert tile.stages % 2 == 0


def test_modelled_times_are_those_of_the_kernels_by_hand():
    """Those had tiles of 128 features; a step of ours is half of one of theirs."""
    results = json.loads(Path("benchmarks/results/gpu_hopper.json").read_text())["rows"]
    rows = [row for row in results if row.get("design") == "scatter" and "shape" in row]
    ratios = []
    for row in rows:
        slots = int(row["case"].rpartition(" of ")[0].rpartition(" ")[2])
        tile = WgmmaTile(row["rows"], 64, 8, banks(slots))
        time = seconds(row["rows"], (128, 128 * 128), tile, row["weight_bytes"], chip(target(ARCH)))
        ratios.append(time * 1e6 / row["times"]["by hand"]["median_us"])
    assert len(ratios) == 8
    assert 1 <= min(ratios)
    assert max(ratios) <= 1.25


@pytest.mark.parametrize(("rows", "parts"), [((64,), 3), ((1024,), 1)])
def test_few_blocks_are_cut(rows, parts):
    c = Contraction(rows, 4096, 4096, numerics=HALF)
    scan = Scan(kept(c.matrix_shape, 8).astype("f4"))
    (found,) = bank_options.balanced(c, scan, target(ARCH))
    assert found.build.args[-1].parts == parts
