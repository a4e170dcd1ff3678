"""Compressed banks: exact round trips, arrays as documented, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import integers
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat


@given(
    rows=st.integers(1, 50),
    banks=st.integers(1, 8),
    kept=st.sampled_from([0.0, 0.3, 1.0]),
    sparsity=st.sampled_from([0.0, 0.5, 0.9]),
    keep=st.sampled_from([None, 1, 2, 3, 5]),
    bank=st.sampled_from([16, 32]),
)
def test_round_trip(rows, banks, kept, sparsity, keep, bank):
    rng = np.random.default_rng(rows * banks)
    blocks = rng.random((-(-rows // 16), banks)) < kept
    matrix = integers(rng, (rows, bank * banks), sparsity)
    matrix *= blocks.repeat(16, 0).repeat(bank, 1)[:rows]
    storage = CompressedBanksFormat.of(matrix, keep=keep, bank=bank)
    arrays = storage.encode(matrix)
    assert (storage.decode(arrays) == matrix).all()
    assert sum(a.nbytes for a in arrays.values()) == storage.nbytes()
    assert storage.entries == max(1, arrays["starts"][-1])
    assert storage.longest == max(1, np.diff(arrays["starts"]).max())


def test_nine_values_take_a_second_word():
    matrix = np.zeros((16, 32), np.float32)
    matrix[3, 16:25] = np.arange(1, 10)
    storage = CompressedBanksFormat.of(matrix)
    arrays = storage.encode(matrix)
    assert arrays["values"].shape == (1, 9, 16)
    assert arrays["values"][0, :, 3].tolist() == list(range(1, 10))
    assert arrays["indices"].view(np.uint32)[0, :, 3].tolist() == [0x76543210, 8]
    assert arrays["columns"].tolist() == [16]


def test_a_fuller_bank_takes_more_entries():
    matrix = np.zeros((16, 64), np.float32)
    matrix[3, 32:37] = np.arange(1, 6)
    matrix[4, 2] = 7
    storage = CompressedBanksFormat.of(matrix, keep=2, bank=32)
    arrays = storage.encode(matrix)
    assert arrays["columns"].tolist() == [0, 32, 32, 32]
    assert arrays["values"][:, :, 3].tolist() == [[0, 0], [1, 2], [3, 4], [5, 0]]
    assert arrays["indices"].dtype == np.uint16
    assert arrays["indices"][1:, 0, 3].tolist() == [0x20, 0x62, 4]
    assert arrays["starts"].tolist() == [0, 4]


@pytest.mark.parametrize(
    ("bank", "keep", "dtype"),
    [(16, 2, "uint8"), (16, 4, "uint16"), (16, 5, "int32"), (32, 1, "uint8"), (32, 3, "uint16")],
)
def test_indices_of_an_entry_take_the_smallest_type(bank, keep, dtype):
    matrix = np.ones((16, bank), np.float32)
    storage = CompressedBanksFormat.of(matrix, keep=keep, bank=bank)
    assert storage.encode(matrix)["indices"].dtype == dtype


def test_refusals():
    outer = CompressedRowsFormat(16, 16, 1, 1, 16, 8, 16, 16)
    with pytest.raises(UnsupportedError, match="of 8 columns"):
        CompressedBanksFormat(outer, 2, 1, 1)
    matrix = np.zeros((16, 16), np.float32)
    matrix[0, :2] = 1
    storage = CompressedBanksFormat.of(matrix)
    matrix[0, 2] = 1
    with pytest.raises(UnsupportedError, match="2 entries of 2 values a row"):
        storage.encode(matrix)
