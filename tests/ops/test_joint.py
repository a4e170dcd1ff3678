"""The joint operator against the naive reference: exact on small integers, every shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import host, integers, run
from tests.ops.shapes import LEADS, WINDOWS, window
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.contractions.joint import joint


def masked(rng, shape, coarse, keep):
    """Keep about ``coarse`` of the 16 x 16 blocks, and up to ``keep`` values a row inside."""
    rows, cols = shape
    blocks = rng.random((-(-rows // 16), -(-cols // 16))) < coarse
    fine = (rng.random((rows, len(blocks[0]), 16)).argsort(-1) < keep).reshape(rows, -1)
    kept = fine * blocks.repeat(16, 0).repeat(16, 1)[:rows]
    return integers(rng, shape, 0.2) * kept[:, :cols]


def assert_exact(contraction, coarse=0.5, keep=4, target=None, slots=4, bank=16):
    rng = np.random.default_rng(1)
    matrix = masked(rng, contraction.matrix_shape, coarse, keep)
    format = CompressedBanksFormat.of(matrix, keep=slots, bank=bank, span=contraction.columns)
    x = integers(rng, contraction.input_shape)
    func = joint(contraction, format, target or host())
    operands = [x, *format.encode(matrix).values()]
    got = run(func, operands, contraction.output_shape, target)
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.parametrize("lead", LEADS, ids=str)
def test_leading_shapes(lead):
    assert_exact(Contraction(lead, 64, 40))


@pytest.mark.parametrize("features", [1, 15, 16, 17, 31, 97])
def test_features_that_no_block_divides(features):
    assert_exact(Contraction((5,), 64, features))


@pytest.mark.grid
@pytest.mark.parametrize("coarse", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("keep", [1, 3, 8, 9, 16])
def test_every_sparsity(coarse, keep):
    assert_exact(Contraction((9,), 96, 64), coarse, keep)


@pytest.mark.grid
@pytest.mark.parametrize("bank", [16, 32, 64])
@pytest.mark.parametrize("slots", [1, 3, 7, 9])
@pytest.mark.parametrize("lead", [(1,), (3,), (9,)], ids=str)
def test_entries_that_hold_a_part_of_a_bank(bank, slots, lead):
    assert_exact(Contraction(lead, 96, 37), 0.7, 11, slots=slots, bank=bank)


@pytest.mark.parametrize("columns", [16, 17, 31, 50, 100])
@pytest.mark.parametrize("bank", [16, 32, 64])
def test_columns_that_no_bank_divides(columns, bank):
    if bank <= columns:
        assert_exact(Contraction((1,), columns, 37), slots=2, bank=bank)


@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_convolutions_of_parts(extents):
    assert_exact(window(extents, 32, 24), slots=3, bank=32)


@pytest.mark.parametrize("extents", WINDOWS, ids=str)
def test_convolutions(extents):
    assert_exact(window(extents, 32, 24))


@pytest.mark.parametrize("lead", [(16,), (70,), (128,), (17, 9)], ids=str)
def test_layers_that_are_worth_threads(lead):
    assert_exact(Contraction(lead, 256, 512), 0.7, 8)


def test_banks_that_may_cross_a_tap_are_refused():
    contraction = window(WINDOWS[0], 32, 24)
    format = CompressedBanksFormat.of(np.ones(contraction.matrix_shape, np.float32), keep=2)
    with pytest.raises(UnsupportedError, match="taps of 32"):
        joint(contraction, format, host())


@pytest.mark.grid
@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    assert_exact(Contraction((6,), 64, 32), target=host(cpu))
    assert_exact(Contraction((6,), 64, 32), target=host(cpu), slots=3, bank=32)


@settings(max_examples=10)
@given(
    rows=st.integers(1, 40),
    features=st.integers(1, 90),
    banks=st.integers(1, 6),
    coarse=st.floats(0, 1),
    keep=st.integers(1, 16),
)
def test_any_shape(rows, features, banks, coarse, keep):
    assert_exact(Contraction((rows,), 16 * banks, features), coarse, keep)
