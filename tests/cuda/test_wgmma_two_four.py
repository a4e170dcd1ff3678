"""2:4 weights on Hopper's sparse tensor cores: executed, broken on purpose, and when chosen."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
import torch

from tests.cuda.hopper import (
    ARCH,
    CASES,
    DTYPES,
    HALF,
    LIMIT,
    Net,
    changing,
    check_epilogues,
    check_exact,
    instructions,
    modelled_over_by_hand,
    outcome,
)
from tests.cuda.kernels import needs_nvrtc, scheduled, target, typed
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.swizzled_quads import STEP, SwizzledQuadsFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma import WgmmaTile as Tile
from tvm_sparse.ops.cuda.wgmma import wgmma_two_four
from tvm_sparse.ops.cuda.wgmma_weights import TWO_FOUR
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule
from tvm_sparse.selection.cuda import options, wgmma_option
from tvm_sparse.selection.cuda.wgmma_option import tile_of

QUADS = Balanced(4, 2)
WgmmaTile = functools.partial(Tile, weights=TWO_FOUR)


def kept(shape, seed=0):
    """A mask of two of four neighbouring columns."""
    rows, columns = shape
    scores = np.random.default_rng(seed).random((rows, -(-columns // 4) * 4), dtype=np.float32)
    return QUADS.project(scores)[:, :columns]


def pruned(c):
    return integers(np.random.default_rng(0), c.matrix_shape) * kept(c.matrix_shape)


def operator(c, tile, matrix):
    format = SwizzledQuadsFormat(*c.matrix_shape, tile.features)
    func = scheduled(wgmma_two_four(c, format, tile), TileWgmmaRule(), ARCH)
    return func, format.encode(typed(matrix, c.dtype)).values()


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "result"), DTYPES)
def test_small_integers_are_exact(hopper, case, dtype, result):
    lead, columns, features, sizes = CASES[case]
    numerics = dataclasses.replace(Numerics.uniform(dtype), output=result)
    c = Contraction(lead, columns, features, numerics=numerics)
    matrix = pruned(c)
    check_exact(hopper, c, matrix, operator(c, WgmmaTile(*sizes), matrix))


LOAD = r"(ld\.shared\.u32\s+%r\d+, \[%r\d+)\]"
FOUND = {
    "copies are not waited for": (r"cp\.async\.wait_group 2;", "cp.async.wait_group 9;"),
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", ""),
    "a product is not waited for": (r"wgmma\.wait_group\.sync\.aligned 0;", ""),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", ""),
    "too many bytes": (r"(expect_tx.*) 9216;", r"\1 9232;"),
    "nobody waits for a step": (r"@p bra DONE;\nbra AGAIN;", ""),
    "places behind the last": (LOAD, r"\1+1024]"),
}


def broken(hopper, change, tile=WgmmaTile(8, 64, 5)):
    """Return whether the output is right, and the findings, with a change of the PTX."""
    c = Contraction((tile.rows,), 1280, tile.features, numerics=HALF)
    matrix = pruned(c)
    return outcome(hopper, c, matrix, operator(c, tile, matrix), change)


@needs_nvrtc
@pytest.mark.parametrize("mutation", FOUND)
def test_what_is_broken_is_found(hopper, mutation):
    assert broken(hopper, changing(*FOUND[mutation]))[1]


@needs_nvrtc
def test_places_of_another_feature_are_noticed(hopper):
    assert not broken(hopper, changing(LOAD, r"\1+8]"))[0]


@needs_nvrtc
def test_words_that_the_next_step_overwrites_are_found(hopper):
    """Why a step waits for its products: one that is under way still reads its words."""
    right, findings = broken(hopper, str, WgmmaTile(64, 64, 3))
    assert right and not findings
    early = dataclasses.replace(TWO_FOUR, name="too_early", pending=1)
    _, findings = broken(hopper, str, Tile(64, 64, 3, early))
    assert {found.kind for found in findings} == {"open register"}


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("rows", [8, 64, 128])
@pytest.mark.parametrize("features", [64, pytest.param(128, marks=pytest.mark.slow)])
def test_machine_code_has_the_products_and_no_spills(rows, features):
    c = Contraction((rows,), 512, 256, numerics=HALF)
    tile = tile_of(rows, features, LIMIT, 2, TWO_FOUR)
    assert tile.rows == rows
    func, _ = operator(c, tile, pruned(c))
    counts = instructions(func)
    assert counts["HGMMA.SP"] and not counts["HMMA"], counts


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("open_batch", [False, True])
def test_a_network_with_epilogues_equals_pytorch(open_batch, monkeypatch):
    monkeypatch.setitem(wgmma_option.UNMEASURED, "two_four", 0.01)  # layers as small go elsewhere
    torch.manual_seed(0)
    model = Net(256, 72).half().eval()
    with torch.no_grad():
        for layer in (model.a, model.b, model.c):
            layer.weight *= torch.from_numpy(kept(layer.weight.shape))
    check_epilogues(model, "two_four", open_batch=open_batch)


@pytest.mark.parametrize(
    ("rows", "arch", "dtype", "kernel"),
    [
        (64, "sm_90a", "float16", "wgmma"),
        (1024, "sm_90a", "bfloat16", "wgmma"),
        (64, "sm_90", "float16", "2:4 tile"),
        (64, "sm_80", "float16", "2:4 tile"),
    ],
)
def test_hopper_alone_has_them(rows, arch, dtype, kernel):
    c = Contraction((rows,), 4096, 4096, numerics=Numerics.uniform(dtype))
    weight = kept(c.matrix_shape).astype("f4")
    (found,) = options.two_four(c, Scan(weight), target(arch))
    assert found.kernel == kernel


def test_no_time_by_hand_is_above_the_modelled_one():
    steps = lambda features, _: 8192 // features * (8192 // STEP)  # noqa: E731
    ratios = modelled_over_by_hand("2:4", steps, TWO_FOUR)
    assert len(ratios) == 3
    assert 1 <= min(ratios) and max(ratios) <= 1.3
