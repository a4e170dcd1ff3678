"""Taps in words of a few rows: nothing is lost, and each tap is where its row of input is."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tvm_sparse.formats.tap_columns import TapColumnsFormat


@given(
    channels=st.integers(1, 40),
    taps=st.tuples(st.integers(1, 7), st.integers(1, 5)),
    depth=st.sampled_from([2, 4]),
    shared=st.integers(1, 3),
    seed=st.integers(0, 99),
)
def test_taps_come_back(channels, taps, depth, shared, seed):
    format = TapColumnsFormat(channels, taps, depth, shared)
    shape = channels, taps[0] * taps[1]
    matrix = np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)
    arrays = format.encode(matrix)
    np.testing.assert_array_equal(format.decode(arrays), matrix)
    assert format.nbytes("int8") == arrays["values"].nbytes


def test_taps_of_the_second_row_are_one_place_later():
    taps = np.arange(1, 7, dtype=np.int8).reshape(1, 6)  # rows 1 2, 3 4, 5 6
    values = TapColumnsFormat(1, (3, 2), depth=4, shared=2).encode(taps)["values"]
    expected = [[1, 3, 5, 0], [2, 4, 6, 0], [0, 1, 3, 5], [0, 2, 4, 6]]
    assert values.tolist() == expected


def test_high_windows_take_several_words():
    taps = np.arange(1, 6, dtype=np.int8).reshape(1, 5)
    values = TapColumnsFormat(1, (5, 1), depth=4, shared=1).encode(taps)["values"]
    assert values.tolist() == [[1, 2, 3, 4], [5, 0, 0, 0]]
