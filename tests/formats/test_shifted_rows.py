"""Compressed rows with places of activations: exact round trips, places counted by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import integers
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat


@given(
    rows=st.integers(1, 40),
    taps=st.permutations([0, 7, 16, 30]),
    channels=st.integers(1, 12),
    tile=st.sampled_from([(16, 8), (32, 512)]),
    sparsity=st.sampled_from([0.0, 0.5, 1.0]),
)
def test_round_trip(rows, taps, channels, tile, sparsity):
    matrix = integers(np.random.default_rng(rows), (rows, len(taps) * channels), sparsity)
    inner = CompressedRowsFormat.of(matrix, tile_rows=tile[0], tile_cols=tile[1])
    format = ShiftedRowsFormat(inner, 31, tuple(taps))
    arrays = format.encode(matrix)
    assert (format.decode(arrays) == matrix).all()
    assert sum(a.nbytes for a in arrays.values()) == format.nbytes()


def test_places_are_those_of_channel_and_tap():
    matrix = np.zeros((16, 6), np.float32)
    matrix[3, 1] = matrix[3, 2] = matrix[5, 5] = 1  # tap 0 channel 1, tap 1 channels 0, 1 of tap 2
    inner = CompressedRowsFormat.of(matrix, tile_cols=4)
    arrays = ShiftedRowsFormat(inner, 100, (7, 0, 40)).encode(matrix)
    assert list(arrays) == ["values", "places", "starts", "groups"]
    assert arrays["places"].tolist() == [107, 0, 140]
