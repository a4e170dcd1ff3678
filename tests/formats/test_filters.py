"""Filter-pruned storage: a smaller matrix and two lists, exact round trips, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import assert_round_trip, matrices, random_matrix
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.filters import FilterPrunedFormat
from tvm_sparse.patterns.filters import FilterPruned


@given(matrices())
def test_round_trip(matrix):
    assert_round_trip(FilterPrunedFormat.of(matrix), matrix)


@given(st.integers(1, 5), st.integers(1, 9), st.integers(0, 2**32))
def test_inputs_of_several_taps(inputs, taps, seed):
    matrix = random_matrix((6, inputs * taps), 0.4, seed)
    matrix.reshape(6, inputs, taps)[:, 0] = 0
    storage = FilterPrunedFormat.of(matrix, FilterPruned(taps=taps))
    arrays = assert_round_trip(storage, matrix)
    assert 0 not in arrays["inputs"]
    assert arrays["values"].shape[1] == taps * len(arrays["inputs"])


def test_what_is_left_is_dense():
    matrix = np.outer([1, 0, 2], [1, 3, 0, 0]).astype(np.float32)
    arrays = assert_round_trip(FilterPrunedFormat.of(matrix), matrix)
    assert arrays["values"].tolist() == [[1, 3], [2, 6]]
    assert (arrays["outputs"].tolist(), arrays["inputs"].tolist()) == ([0, 2], [0, 1])


def test_other_matrices_are_refused():
    storage = FilterPrunedFormat(3, 4, 2, 2)
    with pytest.raises(UnsupportedError, match="3 rows and 4 inputs that are not zero"):
        storage.encode(np.ones((3, 4), np.float32))
    with pytest.raises(InputError, match="nan at row 0, column 0"):
        storage.encode(np.full((3, 4), np.nan, np.float32))
    with pytest.raises(UnsupportedError, match="3 taps; expected a divisor of 4"):
        FilterPrunedFormat(3, 4, 2, 2, taps=3)
