"""Slots that are not needed stand for zeros of the matrix: zero times infinity is NaN."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.block import BlockFormat
from tvm_sparse.formats.compressed_banks import CompressedBanksFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.depthwise import DepthwiseTapsFormat
from tvm_sparse.formats.lane_banks import LaneBanksFormat
from tvm_sparse.formats.shared_columns import SharedColumnsFormat
from tvm_sparse.patterns.block import Block

FORMATS = {
    "dense": lambda m: DenseFormat(*m.shape, depth=2),
    "balanced": BalancedFormat.of,
    "balanced of taps": lambda m: BalancedFormat.of(m[:, : m.shape[1] // 2 * 2], segments=2),
    "balanced, shared": lambda m: BalancedFormat.of(m, share=2),
    "balanced, pairs": lambda m: BalancedFormat.of(m, depth=2),
    "joint": CompressedBanksFormat.of,
    "joint, wide": lambda m: CompressedBanksFormat.of(m, keep=4, bank=32),
    "joint, pairs": lambda m: CompressedBanksFormat.of(m, keep=6, depth=2),
    "shared columns": lambda m: SharedColumnsFormat.of(m, depth=2),
    "lane banks": LaneBanksFormat.of,
    "depthwise": lambda m: DepthwiseTapsFormat.of(m, shared=False),
    "depthwise, shared": lambda m: DepthwiseTapsFormat.of(m, shared=True),
    "block, last moved left": lambda m: BlockFormat.of(m, Block(4, 8)),
    "block, in one bucket": lambda m: BlockFormat.of(m, Block(2, 30), limit=1),
    "block": lambda m: BlockFormat.of(m[:, : m.shape[1] // 4 * 4], Block(4, 4)),
}


def pruned(columns: int, density: float, seed: int) -> np.ndarray:
    """Return a matrix of 37 rows, each with another share of zeros."""
    rng = np.random.default_rng(seed)
    shares = np.clip(density * rng.uniform(0.2, 1.8, (37, 1)), 0, 1)
    kept = rng.random((37, columns)) < shares
    return (rng.integers(1, 9, kept.shape) * kept).astype(np.float32)


@pytest.mark.parametrize("density", [0.1, 0.4, 0.7, 0.98])
@pytest.mark.parametrize("columns", [37, 64, 75])
@pytest.mark.parametrize("name", FORMATS)
def test_zeros_that_are_stored_are_zeros_of_the_matrix(name, columns, density):
    matrix = pruned(columns, density, seed=columns)
    format = FORMATS[name](matrix)
    matrix = matrix[:, : format.taps if "depthwise" in name else format.cols]
    arrays = format.encode(matrix)
    np.testing.assert_array_equal(format.decode(arrays), matrix)
    marked = {**arrays, "values": (arrays["values"] == 0).astype(np.float32)}
    assert not (format.decode(marked) * matrix).any()


def ahead(dtype: type, depth: int) -> tuple[CompressedBanksFormat, np.ndarray]:
    """Return rows that are done with a bank, every column of which they have, before others."""
    matrix = np.random.default_rng(0).integers(1, 9, (37, 100)).astype(dtype)
    matrix[::3, :16] = 0
    matrix[::5, 90:] = 0
    return CompressedBanksFormat.of(matrix, keep=8, bank=32, depth=depth), matrix


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rows_that_take_nothing_of_a_full_bank_store_no_zeros_of_it(dtype, depth):
    format, matrix = ahead(dtype, depth)
    arrays = format.encode(matrix)
    np.testing.assert_array_equal(format.decode(arrays), matrix)
    marked = {**arrays, "values": (arrays["values"] == 0).astype(np.float32)}
    assert not (format.decode(marked) * matrix).any()


def test_integers_are_stored_once():
    format, matrix = ahead(np.int8, 1)
    arrays = format.encode(matrix)
    np.testing.assert_array_equal(format.decode(arrays), matrix)
    assert np.count_nonzero(arrays["values"]) == np.count_nonzero(matrix)
