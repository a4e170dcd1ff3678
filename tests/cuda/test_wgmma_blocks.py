"""Blocks on Hopper's tensor cores: dense networks of them, and when they are chosen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import tvm

import tvm_sparse as ts
from tests.cuda.hopper import (
    ARCH,
    HALF,
    LIMIT,
    Net,
    check_exact,
    modelled_over_by_hand,
)
from tests.cuda.kernels import needs_nvrtc, scheduled, target, typed
from tests.cuda.wgmma_kinds import blocks
from tests.emulation.exact import array
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.swizzled_blocks import SwizzledBlocksFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma import WgmmaTile, fits, wgmma_blocks
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule
from tvm_sparse.selection.cuda import options, wgmma_option
from tvm_sparse.selection.cuda.wgmma_option import FEATURES, tile_of
from tvm_sparse.testing import emulate


@needs_nvrtc
def test_a_dense_matrix_keeps_blocks_of_zeros(hopper):
    c = Contraction((9,), 200, 130, numerics=HALF)
    matrix = blocks(c, 64)
    format = SwizzledBlocksFormat.dense(*c.matrix_shape, 64)
    arrays = format.encode(typed(matrix, c.dtype))
    assert len(arrays["values"]) == format.stored == 12
    np.testing.assert_array_equal(format.decode(arrays).astype("f4"), matrix)
    func = scheduled(wgmma_blocks(c, format, WgmmaTile(16, 64, 4)), TileWgmmaRule(), ARCH)
    check_exact(hopper, c, matrix, (func, arrays.values()))


@needs_nvrtc
def test_a_dense_network_without_libraries_equals_pytorch(monkeypatch):
    monkeypatch.setitem(wgmma_option.UNMEASURED, "kept", 0.01)  # small layers go elsewhere
    torch.manual_seed(0)
    model, x = Net(512, 200).bfloat16().eval(), torch.randn(33, 512).bfloat16()
    config = ts.Config(measure=False, libraries=False)
    library = ts.compile(model, (x,), target=f"cuda:{ARCH}", config=config)
    assert {decision.chosen for decision in library.decisions} == {"dense"}
    emulation = emulate(library, array(x))
    assert not emulation.report.findings, emulation.report.findings
    with torch.no_grad():
        wanted = model.float()(x.float())
    np.testing.assert_allclose(emulation.outputs[0].astype("f4"), wanted, rtol=2e-2, atol=2e-2)
    assert {kernel.rule for kernel in library.kernels if kernel.layer} == {"TileWgmma"}


@pytest.mark.parametrize("rows", [1, 33, 100, 700, 5000])
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("result", [2, 4])
def test_tiles_fit_the_shared_memory(rows, features, result):
    tile = tile_of(rows, features, LIMIT, result)
    assert tile.nbytes(result) <= LIMIT
    assert tile.stages >= 3
    assert tile.rows % 8 == 0


def option(rows, arch, columns=8192, dtype="float16", kept=0.1):
    c = Contraction((rows,), columns, columns, numerics=Numerics.uniform(dtype))
    rng = np.random.default_rng(0)
    mask = rng.random((columns // 64, columns // 64)) < kept
    weight = np.repeat(np.repeat(mask, 64, 0), 64, 1).astype("f4")
    (found,) = options.block(c, Scan(weight), target(arch))
    return found


@pytest.mark.parametrize(
    ("rows", "arch", "dtype", "kernel"),
    [
        (32, "sm_90a", "float16", "wgmma"),
        (4096, "sm_90a", "bfloat16", "wgmma"),
        (32, "sm_90", "float16", "tile"),
        (32, "sm_80", "float16", "tile"),
        (32, "sm_90a", "float32", "tile"),
    ],
)
def test_hopper_alone_has_them(rows, arch, dtype, kernel):
    assert option(rows, arch, 4096, dtype).kernel == kernel


@pytest.mark.parametrize(
    ("rows", "arch", "kernel"),
    [(1, ARCH, "stream"), (32, ARCH, "tile"), (1024, ARCH, "wgmma"), (1024, "sm_90", "tile")],
)
def test_dense_layers_of_many_rows_have_them_too(rows, arch, kernel):
    c = Contraction((rows,), 2048, 2048, numerics=HALF)
    assert options.dense(c, target(arch)).kernel == kernel
    batch = tvm.tirx.Var("n", "int64")
    assert options.dense(dataclasses.replace(c, lead=(batch,)), target(arch)).kernel == "tile"


def test_dense_kernels_by_hand_are_faster_than_the_model():
    ratios = modelled_over_by_hand("none", lambda features, _: 8192 // features * 128)
    assert len(ratios) == 7
    assert 1 <= min(ratios) and max(ratios) <= 1.6


def test_modelled_times_are_those_of_the_kernels_by_hand():
    kept = lambda features, row: row["weight_bytes"] // (features * 128)  # noqa: E731
    ratios = modelled_over_by_hand("block", kept)
    errors = [max(ratio, 1 / ratio) for ratio in ratios]
    assert len(errors) == 36
    assert np.median(errors) < 1.06
    assert max(errors) < 1.3


def test_what_has_no_kernel():
    linear = Contraction((4,), 512, 256, numerics=HALF)
    assert fits(linear)
    assert not fits(dataclasses.replace(linear, columns=516))
    assert not fits(Contraction((4,), 512, 256))
    with pytest.raises(UnsupportedError, match="multiple of 64"):
        SwizzledBlocksFormat(256, 512, 32, 1)
    with pytest.raises(UnsupportedError, match="2 kept blocks"):
        SwizzledBlocksFormat(128, 64, 64, 1).encode(np.ones((128, 64), "f4"))
