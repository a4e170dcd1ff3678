"""Block format: exact round trips for every kernel layout, buckets, edges, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import assert_round_trip, matrices, random_matrix
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.patterns.block import Block


@given(matrices(), st.integers(1, 45), st.integers(1, 80), st.integers(1, 4))
def test_round_trip(matrix, rows, cols, limit):
    assert_round_trip(BlockFormat.of(matrix, Block(rows, cols), limit=limit), matrix)


def test_layout():
    matrix = np.zeros((5, 7), np.float32)
    matrix[2:4, 3:6] = [[1, 2, 3], [4, 5, 6]]
    matrix[4, 6] = 7
    format = BlockFormat.of(matrix, Block(2, 3))
    arrays = assert_round_trip(format, matrix)
    assert format.buckets.parts == (Bucket(3, 1),)
    assert arrays["order"].tolist() == [0, 1, 2]
    assert arrays["columns"].tolist() == [0, 1, 2]
    assert arrays["values"][1].tolist() == [[1, 4], [2, 5], [3, 6]]
    # The last block is moved left by two columns, and its second row does not exist.
    assert format.block_start(2) == 4
    assert arrays["values"][2].tolist() == [[0, 0], [0, 0], [7, 0]]


def test_counts_are_those_of_each_row():
    matrix = np.zeros((6, 8), np.float32)
    matrix[:2], matrix[4, 7] = 1, 1
    format = BlockFormat.of(matrix, Block(2, 4), limit=1).counted(matrix)
    arrays = assert_round_trip(format, matrix)
    assert format.kept == 3
    assert arrays["counts"].tolist() == [2, 0, 1]
    assert format.nbytes() == sum(array.nbytes for array in arrays.values())


def test_buckets_leave_little_padding():
    kept = np.random.default_rng(0).random((64, 64)) < 0.1
    matrix = np.repeat(np.repeat(kept, 16, axis=0), 16, axis=1).astype(np.float32)
    one, many = (BlockFormat.of(matrix, Block(16, 16), limit=n) for n in (1, 8))
    assert one.buckets.slots > 1.5 * kept.sum()
    assert many.buckets.slots < 1.1 * kept.sum()
    assert_round_trip(many, matrix)


def test_block_rows_that_do_not_fit_are_refused():
    matrix = random_matrix((8, 8), 1.0, 0)
    with pytest.raises(UnsupportedError, match="2 entries in group 0; expected at most 1"):
        BlockFormat(8, 8, 4, 4, Buckets((Bucket(2, 1),))).encode(matrix)
    with pytest.raises(UnsupportedError, match="blocks 4x9"):
        BlockFormat(8, 8, 4, 9, Buckets((Bucket(2, 1),)))
    with pytest.raises(UnsupportedError, match="3 block rows; expected 2"):
        BlockFormat(8, 8, 4, 4, Buckets((Bucket(3, 1),)))


def test_nan_is_refused():
    matrix = np.ones((4, 4), np.float32)
    format = BlockFormat.of(matrix, Block(2, 2))
    matrix[3, 0] = np.nan
    with pytest.raises(InputError, match="nan at row 3, column 0"):
        format.encode(matrix)
