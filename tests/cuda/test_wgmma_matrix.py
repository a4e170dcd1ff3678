"""A dense matrix that cuBLASLt shares, by ``wgmma``: what runs on Hopper without that library."""

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
    check_exact,
    instructions,
    outcome,
)
from tests.cuda.kernels import needs_nvrtc, scheduled, target, typed
from tests.emulation.exact import array
from tests.kernels import integers
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda.wgmma import WgmmaTile, wgmma_matrix
from tvm_sparse.ops.cuda.wgmma_weights import MATRIX
from tvm_sparse.schedules.cuda.tile_wgmma import TileWgmmaRule
from tvm_sparse.selection.cuda import library_options, wgmma_option
from tvm_sparse.selection.cuda.wgmma_option import tile_of
from tvm_sparse.testing import emulate


def operator(c, tile, matrix):
    lanes = -(-c.features // tile.features) * tile.features
    format = DenseFormat(*c.matrix_shape, lanes=lanes)
    func = scheduled(wgmma_matrix(c, format, tile), TileWgmmaRule(), ARCH)
    return func, format.encode(typed(matrix, c.dtype)).values()


def weight(c):
    return integers(np.random.default_rng(0), c.matrix_shape)


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "result"), DTYPES)
def test_small_integers_are_exact(hopper, case, dtype, result):
    lead, columns, features, sizes = CASES[case]
    numerics = dataclasses.replace(Numerics.uniform(dtype), output=result)
    c = Contraction(lead, columns, features, numerics=numerics)
    matrix = weight(c)
    check_exact(hopper, c, matrix, operator(c, WgmmaTile(*sizes, MATRIX), matrix))


FOUND = {
    "copies are not waited for": (r"cp\.async\.wait_group 2;", "cp.async.wait_group 9;"),
    "no proxy fence": (r"fence\.proxy\.async\.shared::cta;", ""),
    "a product is not waited for": (r"wgmma\.wait_group\.sync\.aligned 0;", ""),
    "products overtake": (r"(wgmma\.wait_group\.sync\.aligned) 1;", r"\1 7;"),
}


def broken(hopper, change):
    """Return whether the output is right, and the findings, with a change of the PTX."""
    c = Contraction((8,), 640, 64, numerics=HALF)
    matrix = weight(c)
    return outcome(hopper, c, matrix, operator(c, WgmmaTile(8, 64, 5, MATRIX), matrix), change)


@needs_nvrtc
@pytest.mark.parametrize("mutation", FOUND)
def test_what_is_broken_is_found(hopper, mutation):
    assert broken(hopper, changing(*FOUND[mutation]))[1]


@needs_nvrtc
def test_a_matrix_that_is_not_turned_is_noticed(hopper):
    assert broken(hopper, str) == (True, ())
    assert not broken(hopper, changing(r"1, 1, 1, 1, 0;", "1, 1, 1, 0, 0;"))[0]


@pytest.mark.grid
@needs_nvrtc
@pytest.mark.parametrize("rows", [16, 64, 256])
@pytest.mark.parametrize("features", [64, 128])
def test_machine_code_has_the_products_and_no_spills(rows, features):
    c = Contraction((rows,), 512, 256, numerics=HALF)
    tile = tile_of({256: 4000}.get(rows, rows), features, LIMIT, 2, MATRIX)
    counts = instructions(operator(c, tile, weight(c))[0])
    assert counts["HGMMA"] and not counts["HMMA"], counts


@needs_nvrtc
@pytest.mark.parametrize("libraries", [False, True])
def test_a_network_equals_pytorch_with_the_library_and_without(libraries, monkeypatch):
    monkeypatch.setitem(wgmma_option.UNMEASURED, "matrix", 0.01)  # small layers go elsewhere
    torch.manual_seed(0)
    model, x = Net(128, 72).bfloat16().eval(), torch.randn(33, 128).bfloat16()
    config = ts.Config(force={"*": "cublaslt"})
    library = ts.compile(model, (x,), target=f"cuda:{ARCH}", config=config)
    assert {decision.chosen for decision in library.decisions} == {"cublaslt"}
    assert {kernel.rule for kernel in library.kernels if kernel.layer} == {"TileWgmma"}
    emulation = emulate(library, array(x), libraries=libraries)
    assert not emulation.report.findings, emulation.report.findings
    launched = [launch.kernel for launch in emulation.report.launches]
    assert len(launched) == (2 if libraries else 3), launched
    with torch.no_grad():
        wanted = model.float()(x.float())
    np.testing.assert_allclose(emulation.outputs[0].astype("f4"), wanted, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("lead", "arch", "dtype", "by_wgmma"),
    [
        ((1024,), "sm_90a", "float16", True),
        ((1024,), "sm_90", "float16", False),
        ((1024,), "sm_90a", "float32", False),
        (("n",), "sm_90a", "float16", False),
    ],
)
def test_hopper_alone_has_it_as_second_branch(lead, arch, dtype, by_wgmma):
    lead = tuple(tvm.tirx.Var(n, "int64") if isinstance(n, str) else n for n in lead)
    c = Contraction(lead, 2048, 2048, numerics=Numerics.uniform(dtype))
    option = library_options.product(c, target(arch))
    assert ("tile_wgmma" in option.build().script()) is by_wgmma
    assert option.kernel == "cublaslt"
