"""Compressed banks: exact round trips, arrays as documented, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import integers
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.bank_slots import round_up
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat


@given(
    rows=st.integers(1, 50),
    columns=st.integers(16, 150),
    taps=st.integers(1, 3),
    sparsity=st.sampled_from([0.0, 0.5, 0.9, 1.0]),
    keep=st.sampled_from([None, 1, 2, 4, 6]),
    depth=st.sampled_from([1, 2]),
    bank=st.sampled_from([16, 32, 64]),
)
def test_round_trip(rows, columns, taps, sparsity, keep, depth, bank):
    rng, columns = np.random.default_rng(rows * columns), max(columns, bank)
    matrix = integers(rng, (rows, taps * columns), sparsity)
    matrix *= rng.random(len(matrix[0])) < 0.7
    keep = keep and round_up(keep, depth)
    format = CompressedBanksFormat.of(matrix, keep=keep, bank=bank, span=columns, depth=depth)
    arrays = format.encode(matrix)
    assert (format.decode(arrays) == matrix).all()
    assert sum(a.nbytes for a in arrays.values()) == format.nbytes()
    assert format.entries == max(1, arrays["starts"][-1])
    assert format.longest == max(1, np.diff(arrays["starts"]).max())
    first = arrays["columns"].astype(int)
    assert (first // columns == (first + bank - 1) // columns).all()


def test_nine_values_take_a_second_word():
    matrix = np.zeros((16, 32), np.float32)
    matrix[3, 16:25] = np.arange(1, 10)
    format = CompressedBanksFormat.of(matrix, keep=9)
    arrays = format.encode(matrix)
    assert arrays["values"].shape == (1, 9, 16)
    assert arrays["values"][0, :, 3].tolist() == list(range(1, 10))
    assert arrays["indices"].view(np.uint32)[0, :, 3].tolist() == [0x76543210, 8]
    assert arrays["columns"].tolist() == [16]


def test_a_fuller_bank_takes_more_entries():
    matrix = np.zeros((16, 64), np.float32)
    matrix[3, 32:37] = np.arange(1, 6)
    matrix[4, 2] = 7
    format = CompressedBanksFormat.of(matrix, keep=2, bank=32)
    arrays = format.encode(matrix)
    assert arrays["columns"].tolist() == [0, 32, 32, 32]
    assert arrays["values"][:, :, 3].tolist() == [[0, 0], [1, 2], [3, 4], [5, 0]]
    assert arrays["indices"].dtype == np.uint16
    assert arrays["indices"][1:, 0, 3].tolist() == [0x20, 0x62, 0xA4]
    assert arrays["starts"].tolist() == [0, 4]


def test_a_bank_begins_where_something_is_left_and_a_row_may_be_ahead():
    matrix = np.zeros((16, 64), np.float32)
    matrix[0, [20, 50]] = 1, 2
    matrix[1, [33, 34]] = 3, 4
    arrays = CompressedBanksFormat.of(matrix, keep=1, bank=32).encode(matrix)
    assert arrays["columns"].tolist() == [16, 32]
    assert arrays["values"][:, 0, :2].tolist() == [[1, 3], [2, 4]]
    assert arrays["indices"][:, 0, :2].tolist() == [[4, 17], [18, 2]]


@pytest.mark.parametrize(
    ("bank", "keep", "dtype"),
    [(16, 2, "uint8"), (16, 4, "uint16"), (16, 5, "int32"), (32, 1, "uint8"), (32, 3, "uint16")],
)
def test_indices_of_an_entry_take_the_smallest_type(bank, keep, dtype):
    matrix = np.ones((16, bank), np.float32)
    format = CompressedBanksFormat.of(matrix, keep=keep, bank=bank)
    assert format.encode(matrix)["indices"].dtype == dtype


def test_refusals():
    with pytest.raises(UnsupportedError, match="of 8 columns"):
        CompressedBanksFormat(16, 16, 2, 1, 1, bank=8)
    with pytest.raises(UnsupportedError, match="32 columns in spans of 24"):
        CompressedBanksFormat(16, 48, 2, 1, 1, bank=32, span=24)
    with pytest.raises(UnsupportedError, match="keep = 3"):
        CompressedBanksFormat.of(np.ones((16, 16), np.int8), keep=3, depth=2)
    matrix = np.zeros((16, 16), np.float32)
    matrix[0, :2] = 1
    format = CompressedBanksFormat.of(matrix, keep=2)
    matrix[0, 2] = 1
    with pytest.raises(UnsupportedError, match="2 entries of 2 values a row"):
        format.encode(matrix)
