"""Compressed rows: exact round trips, arrays as documented, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import integers
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat


@given(
    rows=st.integers(1, 70),
    runs=st.integers(1, 40),
    run=st.sampled_from([1, 2, 4]),
    group=st.sampled_from([1, 2, 4, 16]),
    tile=st.sampled_from([(16, 8), (32, 16), (16, 512)]),
    sparsity=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
)
def test_round_trip(rows, runs, run, group, tile, sparsity):
    matrix = integers(np.random.default_rng(rows * runs), (rows, runs * run), sparsity)
    format = CompressedRowsFormat.of(
        matrix, group=group, run=run, tile_rows=tile[0], tile_cols=tile[1]
    )
    arrays = format.encode(matrix)
    assert (format.decode(arrays) == matrix).all()
    assert sum(a.nbytes for a in arrays.values()) == format.nbytes()
    assert arrays["starts"][-1] <= format.entries == len(arrays["values"])
    assert np.diff(arrays["starts"]).max() <= format.longest


def test_slots_are_sorted_by_length_within_a_tile():
    matrix = integers(np.random.default_rng(0), (32, 40), 0.7)
    format = CompressedRowsFormat.of(matrix, tile_rows=16, tile_cols=20)
    arrays = format.encode(matrix)
    lengths = np.diff(arrays["starts"]).reshape(2, 2, 16)
    assert (np.diff(lengths) >= 0).all()
    expected = (matrix.reshape(2, 16, 2, 20) != 0).sum(-1).transpose(0, 2, 1)
    got = np.take_along_axis(expected, arrays["groups"].reshape(2, 2, 16).astype(int), -1)
    assert (got == lengths).all()


def test_only_kept_blocks_are_stored():
    matrix = np.zeros((32, 16), np.float32)
    matrix[20, 9] = 3
    format = CompressedRowsFormat.of(matrix, group=16, run=8, tile_rows=16, tile_cols=16)
    arrays = format.encode(matrix)
    assert arrays["values"].shape == (1, 8, 16)
    assert arrays["values"][0, 1, 4] == 3
    assert arrays["columns"].tolist() == [8]
    assert arrays["starts"].tolist() == [0, 0, 1]
    assert "groups" not in arrays


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_values_keep_their_dtype(dtype):
    matrix = integers(np.random.default_rng(1), (20, 24), 0.8).astype(dtype)
    format = CompressedRowsFormat.of(matrix)
    arrays = format.encode(matrix)
    assert arrays["values"].dtype == dtype
    assert format.nbytes(dtype) == sum(a.nbytes for a in arrays.values())
    assert (format.decode(arrays) == matrix).all()


def test_wide_tiles_take_wider_columns():
    matrix = np.zeros((1, 70000), np.float32)
    matrix[0, [0, 69999]] = 1
    format = CompressedRowsFormat.of(matrix, tile_cols=70000)
    arrays = format.encode(matrix)
    assert arrays["columns"].dtype == np.int32
    assert (format.decode(arrays) == matrix).all()


@pytest.mark.parametrize(
    "extents",
    [
        {"run": 3},
        {"run": 2, "tile_cols": 5},
        {"group": 3},
    ],
    ids=str,
)
def test_extents_that_do_not_divide_are_refused(extents):
    with pytest.raises(UnsupportedError, match="runs that divide"):
        CompressedRowsFormat(16, 16, 1, 1, **extents)


def test_other_zeros_are_refused():
    matrix = integers(np.random.default_rng(2), (16, 16), 0.5)
    format = CompressedRowsFormat.of(matrix)
    matrix[0, 0] = 0 if matrix[0, 0] else 1
    with pytest.raises(UnsupportedError, match="nonzero runs"):
        format.encode(matrix)


def test_values_that_are_not_finite_are_refused():
    matrix = np.zeros((16, 16), np.float32)
    format = CompressedRowsFormat.of(matrix)
    matrix[3, 4] = np.nan
    with pytest.raises(InputError, match="row 3, column 4"):
        format.encode(matrix)
