"""The balanced operator against the naive reference: exact on small integers, every shape."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import host, integers, keep_of_bank, run
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction, reference


def assert_exact(contraction, matrix, share=1, target=None, bank=16):
    rng = np.random.default_rng(1)
    x = integers(rng, contraction.input_shape)
    segments = math.prod(contraction.taps)
    format = BalancedFormat.of(matrix, bank=bank, share=share, segments=segments)
    func = balanced(contraction, format, target or host())
    operands = [x, *format.encode(matrix).values()]
    got = run(func, operands, contraction.output_shape, target)
    assert (got == reference(contraction, x, matrix)).all()


@pytest.mark.parametrize("keep", [1, 2, 3, 4, 5, 8, 16])
def test_every_keep(keep):
    matrix = keep_of_bank(np.random.default_rng(keep), (32, 96), keep)
    assert_exact(Contraction((12,), 96, 32), matrix)


@pytest.mark.grid
@pytest.mark.parametrize("features", [1, 15, 16, 17, 31, 37])
@pytest.mark.parametrize("columns", [16, 17, 31, 37, 48])
def test_shapes_that_no_tile_divides(features, columns):
    rng = np.random.default_rng(features * columns)
    assert_exact(Contraction((5,), columns, features), integers(rng, (features, columns), 0.8))


@pytest.mark.grid
@pytest.mark.parametrize("sparsity", [0.0, 0.25, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("lead", [(1,), (197,), (2, 3, 4)])
def test_every_sparsity_and_rank(sparsity, lead):
    rng = np.random.default_rng(0)
    assert_exact(Contraction(lead, 40, 24), integers(rng, (24, 40), sparsity))


@pytest.mark.grid
@pytest.mark.parametrize(
    "window",
    [
        ((1, 6, 7), (3, 3), (1, 1), (1, 1), (8, 9)),
        ((2, 4, 3), (3, 2), (2, 3), (2, 1), (11, 8)),
        ((1, 14, 14), (1, 1), (2, 2), (1, 1), (28, 28)),
        ((1, 3, 3), (5, 5), (1, 1), (1, 1), (7, 7)),
    ],
    ids=str,
)
@pytest.mark.parametrize("columns", [16, 24, 32])
def test_convolutions(window, columns):
    lead, taps, strides, dilation, padded = window
    contraction = Contraction(lead, columns, 20, taps, strides, dilation, padded)
    rng = np.random.default_rng(2)
    assert_exact(contraction, integers(rng, contraction.matrix_shape, 0.85))


@pytest.mark.parametrize("share", [2, 4])
def test_rows_that_share_columns(share):
    rng = np.random.default_rng(3)
    kept = rng.random((1, 16, 6, 16)).argsort(-1) < 3
    kept = np.broadcast_to(kept, (share, 16, 6, 16)).reshape(share * 16, 96)
    assert_exact(Contraction((9,), 96, share * 16), integers(rng, kept.shape) * kept, share)


@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_other_instruction_sets(cpu):
    matrix = keep_of_bank(np.random.default_rng(0), (32, 64), 4)
    assert_exact(Contraction((6,), 64, 32), matrix, target=host(cpu))


WIDE = [
    (Contraction((1,), 32, 16), 0.9),
    (Contraction((5,), 47, 17), 0.8),
    (Contraction((197,), 96, 37), 0.9),
    (Contraction((1, 6, 7), 64, 20, (3, 3), (1, 1), (1, 1), (8, 9)), 0.9),
    (Contraction((2, 4, 3), 40, 33, (3, 2), (2, 3), (2, 1), (11, 8)), 0.5),
    (Contraction((4,), 64, 32), 0.0),
    (Contraction((4,), 64, 32), 1.0),
]


@pytest.mark.parametrize(("contraction", "sparsity"), WIDE, ids=str)
def test_banks_of_32(contraction, sparsity):
    matrix = integers(np.random.default_rng(4), contraction.matrix_shape, sparsity)
    assert_exact(contraction, matrix, bank=32)


def test_rows_share_columns_of_banks_of_32():
    kept = np.random.default_rng(3).random((1, 16, 3, 32)).argsort(-1) < 5
    kept = np.broadcast_to(kept, (2, 16, 3, 32)).reshape(32, 96)
    assert_exact(
        Contraction((9,), 96, 32), integers(np.random.default_rng(4), kept.shape) * kept, 2, bank=32
    )


@pytest.mark.parametrize("keep", [1, 3, 7, 13])
def test_every_keep_of_32(keep):
    kept = np.random.default_rng(keep).random((32, 3, 32)).argsort(-1) < keep
    matrix = integers(np.random.default_rng(5), (32, 96)) * kept.reshape(32, 96)
    assert_exact(Contraction((12,), 96, 32), matrix, bank=32)


@pytest.mark.grid
@pytest.mark.parametrize("cpu", ["haswell", "x86-64"])
def test_banks_of_32_on_other_instruction_sets(cpu):
    matrix = integers(np.random.default_rng(0), (32, 64), 0.9)
    assert_exact(Contraction((6,), 64, 32), matrix, target=host(cpu), bank=32)


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 20), st.integers(16, 70), st.integers(1, 50), st.floats(0, 1), st.integers(0, 99)
)
def test_any_linear(rows, columns, features, sparsity, seed):
    rng = np.random.default_rng(seed)
    assert_exact(
        Contraction((rows,), columns, features), integers(rng, (features, columns), sparsity)
    )
