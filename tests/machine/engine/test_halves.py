"""Operators of bfloat16, on every machine that runs here: exact on small integers."""

from __future__ import annotations

import math
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.integers import TARGETS
from tests.kernels import host, integers, run
from tests.ops.shapes import LEADS, WINDOWS, window
from tvm_sparse.base.numerics import BFLOATS
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.dense import DenseTapFormat
from tvm_sparse.machine.engine.registry import engine_of
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.block import block
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.ops.contractions.depthwise_taps import depthwise_taps
from tvm_sparse.ops.contractions.joint import joint
from tvm_sparse.selection.narrow import stored

pytestmark = pytest.mark.isa
DEPTH = 2
"""Halves that a lane has side by side."""

WIDE, NARROW = BFLOATS


def half(c, numerics=WIDE):
    return replace(c, numerics=numerics)


def assert_exact(c, matrix, inner, operator, target=None):
    target = target or host()
    x = integers(np.random.default_rng(1), c.input_shape).astype(ml_dtypes.bfloat16)
    arrays = stored(inner, c, target).encode(matrix)
    func = operator(c, inner, target)
    got = run(func, [x, *arrays.values()], c.output_shape, target, c.out_dtype)
    expected = reference(c, x.astype(np.float32), matrix).astype(got.dtype)
    np.testing.assert_array_equal(got.astype(np.float32), expected.astype(np.float32))


def weights(c, sparsity):
    return integers(np.random.default_rng(0), c.matrix_shape, sparsity)


def check_dense(c, target=None):
    assert_exact(c, weights(c, 0.2), dense_format(c, target or host()), dense, target)


def check_balanced(c, bank, share=1, target=None):
    matrix, taps = weights(c, 0.8), math.prod(c.taps)
    format = BalancedFormat.of(matrix, bank=bank, share=share, segments=taps, depth=DEPTH)
    assert_exact(c, matrix, format, balanced, target)


def check_joint(c, bank, target=None):
    matrix = weights(c, 0.9)
    matrix[:, :bank] = 0
    format = CompressedBanksFormat.of(matrix, bank=bank, keep=4, span=c.columns, depth=DEPTH)
    assert_exact(c, matrix, format, joint, target)


def check_block(c, target=None):
    matrix = weights(c, 0.1)
    matrix[:, 4:20] = 0
    format = CompressedRowsFormat.of(
        matrix, group=16, run=4, tile_rows=16, tile_cols=matrix.shape[1], depth=DEPTH
    )
    assert_exact(c, matrix, format, block, target)


@pytest.mark.grid
@pytest.mark.parametrize("machine", ["host", *TARGETS])
def test_every_format_on_every_machine(machine):
    target = TARGETS.get(machine, host())
    c = half(Contraction((3,), 64, 21))
    bank = engine_of(c.numerics, target).banks[-1]
    check_dense(c, target)
    check_balanced(c, bank, target=target)
    check_joint(c, bank, target)
    check_block(c, target)


@pytest.mark.grid
@pytest.mark.parametrize("lead", LEADS, ids=str)
@pytest.mark.parametrize(("columns", "features"), [(1, 1), (3, 16), (67, 37)])
def test_dense_of_any_shape(lead, columns, features):
    check_dense(half(Contraction(lead, columns, features)))


@pytest.mark.grid
@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_convolutions(extents):
    for columns in (3, 32):
        check_dense(half(window(extents, columns, 20)))
    check_balanced(half(window(extents, 48, 20)), 32)
    check_balanced(half(window(extents, 24, 20)), 16, 2)
    check_joint(half(window(extents, 32, 20)), 16)
    check_block(half(window(extents, 32, 20)))


@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_depthwise_convolutions(extents):
    for count in (7, 32):
        c = half(replace(window(extents, count, count), depthwise=True))
        matrix = weights(c, 0.4)
        taps = DenseTapFormat(*matrix.shape)
        assert_exact(c, matrix, taps, lambda c, _, t: depthwise(c, t))
    kept = CompressedRowsFormat.of(matrix, group=16, tile_rows=16, tile_cols=matrix.shape[1])
    assert_exact(c, matrix, kept, depthwise_taps)


@pytest.mark.parametrize("columns", [33, 65])
def test_results_may_be_half_too(columns):
    c = half(Contraction((6,), columns, 21), NARROW)
    check_dense(c)
    check_balanced(c, 32)


def test_bits_that_are_no_numbers_stay_so():
    c = half(Contraction((3,), 8, 16))
    x = np.ones((3, 8), ml_dtypes.bfloat16)
    x[0, 3], x[1, 2] = np.nan, np.inf
    matrix = integers(np.random.default_rng(0), (16, 8))
    inner = dense_format(c, host())
    arrays = stored(inner, c, host()).encode(matrix)
    got = run(dense(c, inner, host()), [x, *arrays.values()], c.output_shape)
    assert np.isnan(got[0]).all()
    assert (np.abs(got[1]) == np.inf).all()
    assert np.isfinite(got[2]).all()
