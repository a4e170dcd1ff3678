"""Joint storage: exact round trips of all three ways, the fewest bytes, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import assert_round_trip, matrices, random_matrix
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.joint import JointFormat, NestedFormat
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.joint import Joint


def pruned(pattern, shape, sparsity):
    scores = np.random.default_rng(0).random(shape).astype(np.float32)
    return scores * pattern.project(scores, sparsity)


@given(matrices(), st.integers(1, 90), st.integers(1, 20), st.integers(1, 20), st.integers(1, 4))
def test_round_trip(matrix, bank, rows, cols, limit):
    pattern = Joint(Balanced(bank, bank), Block(rows, cols))
    nested = NestedFormat.of(matrix, pattern, limit=limit)
    assert_round_trip(nested, matrix)
    best = JointFormat.of(matrix, pattern, limit=limit)
    assert_round_trip(best, matrix)
    assert best.nbytes(matrix.dtype) <= nested.nbytes(matrix.dtype)


@pytest.mark.parametrize(
    ("bank", "block", "sparsity", "storage"),
    [
        ((16, 14), (16, 16), 0.8, BlockFormat),
        ((16, 4), (16, 16), 0.8, NestedFormat),
        ((512, 128), (4, 4), 0.95, NestedFormat),
        ((16, 2), (2, 2), 0.876, BalancedFormat),
    ],
)
def test_the_smallest_storage_is_taken(bank, block, sparsity, storage):
    pattern = Joint(Balanced(*bank), Block(*block))
    matrix = pruned(pattern, (256, 1024), sparsity)
    taken = JointFormat.of(matrix, pattern)
    assert isinstance(taken.storage, storage)
    assert_round_trip(taken, matrix)


def test_banks_inside_blocks_keep_their_short_indices():
    pattern = Joint(Balanced(16, 4), Block(16, 32))
    storage = NestedFormat.of(pruned(pattern, (256, 1024), 0.8), pattern)
    assert {(part.bank, part.keep) for part in storage.inner} == {(16, 4)}


def test_other_matrices_are_refused():
    pattern = Joint(Balanced(16, 4), Block(16, 16))
    matrix = pruned(pattern, (64, 64), 0.8)
    storage = NestedFormat.of(matrix, pattern)
    with pytest.raises(UnsupportedError, match="entries in group"):
        storage.encode(random_matrix((64, 64), 1.0, 0))
    matrix[5, 5] = np.nan
    with pytest.raises(InputError, match="nan at row 5, column 5"):
        storage.encode(matrix)
