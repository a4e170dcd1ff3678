"""Depthwise-tap format: exact round trips, taps of one channel or of a group, refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import assert_round_trip, matrices
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.buckets import Bucket, Buckets
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.patterns.depthwise import DepthwiseTaps


@given(
    matrices(rows=70, cols=25),
    st.sampled_from([1, 16, 32]),
    st.sampled_from([None, True, False]),
    st.integers(1, 3),
)
def test_round_trip(matrix, lanes, shared, limit):
    format = DepthwiseTapsFormat.of(matrix, lanes=lanes, shared=shared, limit=limit)
    assert_round_trip(format, matrix)
    assert shared is None or format.shared == shared


def test_layout():
    matrix = np.array([[0, 1, 2], [0, 3, 0], [0, 0, 0]], np.float32)
    alone = DepthwiseTapsFormat.of(matrix, lanes=2, shared=False)
    arrays = assert_round_trip(alone, matrix)
    assert arrays["values"].tolist() == [[1, 3], [2, 0], [0, 0]]
    assert arrays["taps"].tolist() == [[1, 1], [2, 0], [0, 0]]
    shared = DepthwiseTapsFormat.of(matrix, lanes=2, shared=True)
    assert assert_round_trip(shared, matrix)["taps"].tolist() == [1, 2, 0]


def test_the_smaller_format_is_taken():
    rng = np.random.default_rng(0)
    scores = rng.random((960, 9)).astype(np.float32)
    single = scores * DepthwiseTaps(32).project(scores, 0.78)
    assert not DepthwiseTapsFormat.of(single).shared
    same = scores * (np.arange(9) % 4 == 0)
    assert DepthwiseTapsFormat.of(same).shared


def test_groups_that_do_not_fit_are_refused():
    with pytest.raises(UnsupportedError, match="3 entries in group 0; expected at most 2"):
        DepthwiseTapsFormat(1, 4, 1, False, Buckets((Bucket(1, 2),))).encode(
            np.array([[1.0, 2, 3, 0]])
        )
    with pytest.raises(UnsupportedError, match="1 groups of 1 channels"):
        DepthwiseTapsFormat(2, 4, 1, False, Buckets((Bucket(1, 2),)))


def test_nan_is_refused():
    matrix = np.eye(3, dtype=np.float32)
    format = DepthwiseTapsFormat.of(matrix)
    matrix[1, 1] = np.nan
    with pytest.raises(InputError, match="nan at row 1, column 1"):
        format.encode(matrix)
