"""Blocks on Hopper's tensor cores: executed, broken on purpose, and when they are chosen."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
import tvm

import tvm_sparse as ts
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
)
from tests.cuda.kernels import needs_nvrtc, scheduled, target, typed
from tests.emulation.exact import array
from tests.kernels import integers
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


def pruned(c, features, kept=0.5, seed=0):
    """A weight of small integers whose blocks of ``features`` x 64 are kept or zero."""
    rng = np.random.default_rng(seed)
    rows, columns = c.matrix_shape
    mask = rng.random((-(-rows // features), -(-columns // 64))) < kept
    mask[-1] = False  # a block row without any
    whole = np.repeat(np.repeat(mask, features, 0), 64, 1)[:rows, :columns]
    return integers(rng, c.matrix_shape, 0.3) * whole


def operator(c, tile, matrix):
    format = SwizzledBlocksFormat.of(matrix, tile.features)
    func = scheduled(wgmma_blocks(c, format, tile), TileWgmmaRule(), ARCH)
    return func, format.encode(typed(matrix, c.dtype)).values()


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "result"), DTYPES)
def test_small_integers_are_exact(hopper, case, dtype, result):
    lead, columns, features, sizes = CASES[case]
    numerics = dataclasses.replace(Numerics.uniform(dtype), output=result)
    c, tile = Contraction(lead, columns, features, numerics=numerics), WgmmaTile(*sizes)
    matrix = pruned(c, tile.features)
    check_exact(hopper, c, matrix, operator(c, tile, matrix))


@needs_nvrtc
def test_a_dense_matrix_keeps_blocks_of_zeros(hopper):
    c = Contraction((9,), 200, 130, numerics=HALF)
    matrix = pruned(c, 64)
    format = SwizzledBlocksFormat.dense(*c.matrix_shape, 64)
    arrays = format.encode(typed(matrix, c.dtype))
    assert len(arrays["values"]) == format.stored == 12
    np.testing.assert_array_equal(format.decode(arrays).astype("f4"), matrix)
    func = scheduled(wgmma_blocks(c, format, WgmmaTile(16, 64, 4)), TileWgmmaRule(), ARCH)
    check_exact(hopper, c, matrix, (func, arrays.values()))


MUTATIONS = {
    "copies are not waited for": (r"cp\.async\.wait_group 2;", "cp.async.wait_group 9;"),
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", ""),
    "a product is not waited for": (r"wgmma\.wait_group\.sync\.aligned 0;", ""),
    "products overtake": (r"(wgmma\.wait_group\.sync\.aligned) 1;", r"\1 7;"),
    "no fence of registers": (r"wgmma\.fence\.sync\.aligned;", ""),
    "a wrong parity": (r"(try_wait\.parity\S* \S+, \[\S+\]), \S+;", r"\1, 1;"),
    "too many bytes": (r"(expect_tx.*) 8192;", r"\1 8208;"),
    "too few bytes": (r"(expect_tx.*) 8192;", r"\1 8176;"),
}


@needs_nvrtc
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_is_broken_is_found(hopper, mutation):
    c = Contraction((8,), 640, 64, numerics=HALF)
    matrix = integers(np.random.default_rng(0), c.matrix_shape, 0.3)
    func, arrays = operator(c, WgmmaTile(8, 64, 5), matrix)
    x = typed(integers(np.random.default_rng(1), c.input_shape), c.dtype)
    blank = typed(np.full(c.output_shape, np.nan), c.dtype)
    change = changing(*MUTATIONS[mutation])
    _, report = hopper.run(tvm.IRModule({"main": func}), [x, *arrays], [blank], change)
    assert report.findings


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("rows", [8, 64, 256])
@pytest.mark.parametrize("features", [64, pytest.param(128, marks=pytest.mark.slow)])
def test_machine_code_has_the_products_and_no_spills(rows, features):
    c = Contraction((rows,), 512, 256, numerics=HALF)
    tile = tile_of({128: 1000, 256: 4000}.get(rows, rows), features, LIMIT, 2)
    assert tile.rows == min(rows, 128 if features == 128 else 256)  # what fits
    func, _ = operator(c, tile, pruned(c, features))
    counts = instructions(func)
    assert counts["HGMMA"] and not counts["HMMA"], counts


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


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("open_batch", [False, True])
def test_a_network_with_epilogues_equals_pytorch(open_batch, monkeypatch):
    monkeypatch.setitem(wgmma_option.UNMEASURED, "kept", 0.01)  # small layers go elsewhere
    torch.manual_seed(0)
    model = Net(512, 200).half().eval()
    with torch.no_grad():
        for layer in (model.a, model.b, model.c):
            kept = torch.rand(-(-layer.out_features // 64), 8) < 0.15
            mask = kept.repeat_interleave(64, 0).repeat_interleave(64, 1)
            layer.weight *= mask[: layer.out_features]
    check_epilogues(model, "block", open_batch=open_batch)


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
