"""Unstructured storage: exact round trips, sorted rows, smallest index types, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import assert_round_trip, matrices
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.formats.unstructured import UnstructuredFormat


@given(matrices(), st.sampled_from([1, 4, 16]), st.integers(1, 5), st.integers(1, 4))
def test_round_trip(matrix, lanes, multiple, limit):
    storage = UnstructuredFormat.of(matrix, lanes=lanes, multiple=multiple, limit=limit)
    arrays = assert_round_trip(storage, matrix)
    assert all(part.slots % multiple == 0 for part in storage.buckets.parts)
    if limit == 1:
        assert arrays["order"][: len(matrix)].tolist() == list(range(len(matrix)))


def test_layout():
    matrix = np.array([[0, 5, 0], [0, 0, 0], [1, -0.0, 3]], np.float32)
    storage = UnstructuredFormat.of(matrix, lanes=2, multiple=1)
    arrays = assert_round_trip(storage, matrix)
    assert arrays["order"].tolist() == [2, 0, 1, 3]
    assert storage.buckets.parts == (Bucket(1, 2), Bucket(1, 1))
    assert arrays["values"].tolist() == [[1, 5], [3, 0], [0, 0]]
    assert arrays["columns"].tolist() == [[0, 1], [2, 1], [0, 0]]


@pytest.mark.parametrize(("cols", "dtype"), [(256, "uint8"), (257, "uint16"), (70000, "int32")])
def test_index_types(cols, dtype):
    matrix = np.zeros((2, cols), np.int8)
    matrix[1, -1] = 1
    arrays = assert_round_trip(UnstructuredFormat.of(matrix), matrix)
    assert arrays["columns"].dtype == dtype


def test_rows_that_do_not_fit_are_refused():
    with pytest.raises(UnsupportedError, match="3 entries in group 0; expected at most 2"):
        UnstructuredFormat(1, 4, 1, Buckets((Bucket(1, 2),))).encode(np.array([[1.0, 2, 3, 0]]))
    with pytest.raises(UnsupportedError, match="1 groups of 1 rows"):
        UnstructuredFormat(2, 4, 1, Buckets((Bucket(1, 2),)))


def test_nan_is_refused():
    matrix = np.eye(3, dtype=np.float32)
    storage = UnstructuredFormat.of(matrix)
    matrix[1, 1] = np.inf
    with pytest.raises(InputError, match="inf at row 1, column 1"):
        storage.encode(matrix)
