"""Shared columns: exact round trips, arrays as documented, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import integers
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.shared_columns import SharedColumnsFormat


@given(
    rows=st.integers(1, 70),
    cols=st.integers(1, 90),
    group=st.sampled_from([1, 16, 32]),
    depth=st.sampled_from([1, 2, 4]),
    sparsity=st.sampled_from([0.0, 0.9, 0.99, 1.0]),
)
def test_round_trip(rows, cols, group, depth, sparsity):
    matrix = integers(np.random.default_rng(rows * cols), (rows, cols), sparsity)
    format = SharedColumnsFormat.of(matrix, group=group, depth=depth)
    arrays = format.encode(matrix)
    assert (format.decode(arrays) == matrix).all()
    assert sum(a.nbytes for a in arrays.values()) == format.nbytes()
    assert arrays["starts"][-1] <= format.entries == len(arrays["values"])
    assert np.diff(arrays["starts"]).max() <= format.longest


def test_columns_of_an_entry_lie_side_by_side():
    matrix = np.zeros((32, 300), np.int8)
    matrix[20, [1, 7, 100, 200, 299]] = [3, 4, 5, 6, 7]
    arrays = SharedColumnsFormat.of(matrix, depth=4).encode(matrix)
    # The last of five squares of 64 columns begins at 236.
    places = [64, 448, 1024 + 4 * 64 + 32, 3 * 1024 + 8 * 64], [4096 + 15 * 64 + 48, 0, 0, 0]
    assert arrays["columns"].tolist() == [*places]
    assert arrays["starts"].tolist() == [0, 0, 2]
    values = arrays["values"].reshape(2, 16, 4)
    assert values[:, 4].tolist() == [[3, 4, 5, 6], [7, 0, 0, 0]]
    assert not np.delete(values, 4, 1).any()


def test_other_columns_are_refused():
    matrix = np.zeros((16, 8), np.int8)
    matrix[0, 0] = 1
    format = SharedColumnsFormat.of(matrix, depth=4)
    with pytest.raises(UnsupportedError, match="2 entries, at most 2 of a group"):
        format.encode(np.ones((16, 8), np.int8))
