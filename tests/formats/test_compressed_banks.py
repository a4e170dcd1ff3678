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
)
def test_round_trip(rows, banks, kept, sparsity):
    rng = np.random.default_rng(rows * banks)
    blocks = rng.random((-(-rows // 16), banks)) < kept
    matrix = integers(rng, (rows, 16 * banks), sparsity)
    matrix *= blocks.repeat(16, 0).repeat(16, 1)[:rows]
    storage = CompressedBanksFormat.of(matrix)
    arrays = storage.encode(matrix)
    assert (storage.decode(arrays) == matrix).all()
    assert sum(a.nbytes for a in arrays.values()) == storage.nbytes()
    assert storage.outer.entries == max(1, storage.outer.encode(matrix)["starts"][-1])


def test_nine_values_take_a_second_word():
    matrix = np.zeros((16, 32), np.float32)
    matrix[3, 16:25] = np.arange(1, 10)
    storage = CompressedBanksFormat.of(matrix)
    arrays = storage.encode(matrix)
    assert arrays["values"].shape == (1, 9, 16)
    assert arrays["values"][0, :, 3].tolist() == list(range(1, 10))
    assert arrays["indices"].view(np.uint32)[0, :, 3].tolist() == [0x76543210, 8]
    assert arrays["columns"].tolist() == [16]


def test_refusals():
    outer = CompressedRowsFormat(16, 16, 1, 1, 16, 8, 16, 16)
    with pytest.raises(UnsupportedError, match="of 8 columns"):
        CompressedBanksFormat(outer, 2)
    matrix = np.zeros((16, 16), np.float32)
    matrix[0, :2] = 1
    storage = CompressedBanksFormat.of(matrix)
    matrix[0, 2] = 1
    with pytest.raises(UnsupportedError, match="3 nonzeros in a row of a bank"):
        storage.encode(matrix)
