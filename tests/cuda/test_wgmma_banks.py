"""Banks on Hopper's tensor cores: executed, broken on purpose, and when they are chosen."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cuda.hopper import (
    ARCH,
    DTYPES,
    HALF,
    LIMIT,
    Net,
    changing,
    check_epilogues,
    check_exact,
    instructions,
    outcome,
)
from tests.cuda.kernels import needs_nvrtc, scheduled, target, typed
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.swizzled_banks import SwizzledBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma import WgmmaTile, wgmma_banks
from tvm_sparse.ops.cuda.wgmma_weights import banks
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule
from tvm_sparse.selection.cuda import bank_options, wgmma_option
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.selection.cuda.wgmma_option import seconds, tile_of


def kept(shape, keep, bank=32, seed=0):
    """A mask of ``keep`` of ``bank`` columns."""
    rows, columns = shape
    scores = np.random.default_rng(seed).random((rows, -(-columns // bank) * bank))
    return Balanced(bank, keep).project(scores.astype("f4"))[:, :columns]


def pruned(c, keep=8, bank=32):
    return integers(np.random.default_rng(0), c.matrix_shape) * kept(c.matrix_shape, keep, bank)


def operator(c, rows, stages, matrix):
    format = SwizzledBanksFormat.of(matrix)
    tile = WgmmaTile(rows, 64, stages, banks(format.slots))
    func = scheduled(wgmma_banks(c, format, tile), TileWgmmaRule(), ARCH)
    return func, format.encode(typed(matrix, c.dtype)).values()


CASES = {
    "one row": ((1,), 200, 130, 8, 6),
    "odd rows": ((3, 11), 520, 200, 16, 8),
    "many steps": ((70,), 1320, 64, 64, 10),
}
"""Rows, columns and features of a layer, rows of a tile, and its stages."""


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("keep", [1, 3, 8])
@pytest.mark.parametrize(("dtype", "result"), DTYPES)
def test_small_integers_are_exact(hopper, case, keep, dtype, result):
    lead, columns, features, rows, stages = CASES[case]
    numerics = dataclasses.replace(Numerics.uniform(dtype), output=result)
    c = Contraction(lead, columns, features, numerics=numerics)
    matrix = pruned(c, keep)
    check_exact(hopper, c, matrix, operator(c, rows, stages, matrix))


@needs_nvrtc
@pytest.mark.parametrize(("keep", "bank"), [(16, 64), (2, 16), (1, 4), (11, 128)])
def test_banks_of_any_size_and_zeros_anywhere(hopper, keep, bank):
    c = Contraction((9,), 328, 70, numerics=HALF)
    matrix = pruned(c, keep, bank)
    check_exact(hopper, c, matrix, operator(c, 16, 8, matrix))


@needs_nvrtc
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_tiles_without_a_nonzero_are_passed_over(hopper, share):
    c = Contraction((9,), 640, 200, numerics=HALF)
    mask = np.random.default_rng(3).random((4, 10)) < share
    matrix = pruned(c) * np.repeat(np.repeat(mask, 64, 0), 64, 1)[:200]
    format = SwizzledBanksFormat.of(matrix)
    assert format.kept == mask.sum()
    check_exact(hopper, c, matrix, operator(c, 16, 8, matrix))


FOUND = {
    "copies are not waited for": (r"cp\.async\.wait_group 2;", "cp.async.wait_group 9;"),
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", ""),
    "a product is not waited for": (r"wgmma\.wait_group\.sync\.aligned 0;", ""),
    "a tile that products read is written": (r"(wgmma\.wait_group\.sync\.aligned) 1;", r"\1 7;"),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", ""),
    "a wrong parity": (r"(try_wait\.parity\S* \S+, \[\S+\]), \S+;", r"\1, 1;"),
    "nobody waits": (r"@p bra DONE;\nbra AGAIN;", ""),
    "too many bytes": (r"(expect_tx.*) 3072;", r"\1 3088;"),
    "tiles come without zeros": (r"st\.shared\.v4\.u32 \[.*;", ""),
    "zeros come after values": (r"bar\.warp\.sync\s.*;", ""),
    "a warp tells that it is done for all": (r"(mbarrier\.init\S* \[\S+\]), %r\d+;", r"\1, 1;"),
    "a warp more is waited for": (r"(mbarrier\.init\S* \[\S+\]), %r\d+;", r"\1, 5;"),
    "nobody gives a tile": (r"mbarrier\.arrive\.shared::cta\.b64 _, \[.*;", ""),
}


def broken(hopper, change):
    """Return whether the output is right, and the findings, with a change of the PTX."""
    c = Contraction((8,), 1024, 64, numerics=HALF)
    matrix = pruned(c)
    return outcome(hopper, c, matrix, operator(c, 8, 8, matrix), change)


@needs_nvrtc
@pytest.mark.parametrize("mutation", FOUND)
def test_what_is_broken_is_found(hopper, mutation):
    assert broken(hopper, changing(*FOUND[mutation]))[1]


NOTICED = {
    "values at other places": (r"(st\.shared\.u16 \[%r\d+)\]", r"\1+2]"),
    "values that are not stored": (r"st\.shared\.u16 \[.*;", ""),
}


@needs_nvrtc
@pytest.mark.parametrize("mutation", NOTICED)
def test_what_is_wrong_is_noticed(hopper, mutation):
    assert not broken(hopper, changing(*NOTICED[mutation]))[0]


@needs_nvrtc
def test_the_unbroken_one_is_right(hopper):
    right, findings = broken(hopper, str)
    assert right
    assert not findings


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("rows", [8, 64, 128])
@pytest.mark.parametrize("slots", [1, 3, 8, 16])
def test_machine_code_has_the_products_and_no_spills(rows, slots):
    c = Contraction((rows,), 512, 128, numerics=HALF)
    matrix = pruned(c, 2 * slots, 64)
    tile = tile_of(rows, 64, LIMIT, 2, banks(slots))
    assert tile.rows == rows
    func, _ = operator(c, tile.rows, tile.stages, matrix)
    counts = instructions(func)
    assert counts["HGMMA"] and not counts["HMMA"], counts


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("open_batch", [False, True])
def test_a_network_with_epilogues_equals_pytorch(open_batch, monkeypatch):
    monkeypatch.setitem(wgmma_option.UNMEASURED, "banks", 0.01)  # layers as small go elsewhere
    torch.manual_seed(0)
    model = Net(256, 72).half().eval()
    with torch.no_grad():
        for layer in (model.a, model.b, model.c):
            layer.weight *= torch.from_numpy(kept(layer.weight.shape, 6))
    check_epilogues(model, "balanced", open_batch=open_batch)


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
