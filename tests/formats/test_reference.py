"""The native packers give what their NumPy references give, and refuse wrong tensors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.matrices import matrices
from tvm_sparse.base.native import as_unsigned, bit_masks, library
from tvm_sparse.formats import reference
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.sliding_banks import nonzero_bits


def assert_same(name, *arguments, outputs):
    """Call the native function and its reference, each with outputs of its own."""
    results = []
    for function in (getattr(library(), name), getattr(reference, name)):
        own = [output.copy() for output in outputs]
        results.append([function(*arguments, *own), *own])
    for native, numpy in zip(*results, strict=True):
        np.testing.assert_array_equal(native, numpy)
    return results[0]


def seen(matrix):
    return as_unsigned(matrix), bit_masks(matrix.dtype, "test")[0]


@given(matrices(), st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**32))
def test_pack_blocks(matrix, rows, cols, seed):
    raw, cols = seen(matrix)[0], min(cols, matrix.shape[1])
    rng, shape = np.random.default_rng(seed), matrix.shape
    owner = rng.integers(0, -(-shape[0] // rows), 12).astype(np.int32)
    columns = rng.integers(0, -(-shape[1] // cols), 12).astype(np.int32)
    used = rng.integers(0, 2, 12).astype(np.uint8)
    assert_same(
        "pack_blocks", raw, owner, columns, used, outputs=[np.ones((12, cols, rows), raw.dtype)]
    )


@given(
    matrices(cols=90),
    st.integers(1, 90),
    st.sampled_from([1, 4, 16]),
    st.sampled_from([1, 2]),
    st.integers(1, 3),
    st.booleans(),
)
def test_banks(matrix, bank, lanes, share, segments, enough):
    raw, magnitude = seen(matrix[:, : matrix.shape[1] // segments * segments].copy())
    if not raw.size:
        return
    bank = min(bank, raw.shape[1] // segments)
    arguments = (raw, magnitude, bank, lanes, share, segments)
    (most,) = assert_same("most_in_bank", *arguments, outputs=[])
    keep = max(1, most if enough else most // 2)
    format = BalancedFormat(*raw.shape, keep, bank, lanes, share, segments)
    values = np.zeros((format.row_blocks, format.banks, keep, lanes), raw.dtype)
    indices = np.zeros((format.row_blocks // share, format.words, lanes), np.int32)
    extents = (bank, share, segments, format.banks_per_word)
    if keep >= most:
        assert_same("pack_banks", raw, magnitude, *extents, outputs=[values, indices])
    else:
        functions = (library().pack_banks, reference.pack_banks)
        first, second = (f(raw, magnitude, *extents, values, indices) for f in functions)
        assert first == second >= 0


@given(
    matrices(cols=90),
    st.integers(1, 5),
    st.sampled_from([16, 24, 32]),
    st.integers(1, 3),
    st.sampled_from([1, 4, 16]),
)
def test_sliding_banks(matrix, keep, bank, spans, lanes):
    span = matrix.shape[1] // spans
    if span < bank:
        return
    matrix = matrix[:, : span * spans]
    extents = (matrix.shape[1], keep, bank, span, lanes)
    bits, counts = nonzero_bits(matrix), np.zeros(-(-len(matrix) // lanes), np.int64)
    (_, counts) = assert_same("sliding_counts", bits, *extents, outputs=[counts])
    count = int(counts.sum())
    outputs = [np.zeros(count, np.int64), np.zeros((count, lanes), np.uint8)]
    outputs.append(np.zeros((count, keep, lanes), np.uint8))
    assert_same("sliding_banks", bits, *extents, outputs=outputs)


def test_banks_narrower_than_a_step_are_refused():
    with pytest.raises(ValueError, match=r"Expected 16 to 256\. Got 8"):
        library().sliding_counts(np.ones((1, 1), np.uint64), 60, 1, 8, 60, 4, np.zeros(1, int))


def test_wrong_tensors_are_refused():
    raw, one = np.zeros((4, 8), np.uint32), np.zeros(1, np.int32)
    native = library()
    blocks = np.zeros((1, 2, 2), np.uint32)
    used = np.ones(1, np.uint8)
    with pytest.raises(ValueError, match=r"owner: Expected 0 to 1\. Got 2"):
        native.pack_blocks(raw, one + 2, one, used, blocks)
    with pytest.raises(ValueError, match=r"columns: Expected 0 to 3\. Got -1"):
        native.pack_blocks(raw, one, one - 1, used, blocks)
    with pytest.raises(ValueError, match="No such blocks"):
        native.pack_blocks(raw, one, one, used, np.zeros((1, 9, 2), np.uint32))
    with pytest.raises(ValueError, match="values: Expected 3 dimensions"):
        native.pack_blocks(raw, one, one, used, raw)
    with pytest.raises(TypeError, match=r"values: Expected 32-bit elements\. Got 8-bit"):
        native.pack_blocks(raw, one, one, used, blocks.astype(np.uint8))
    with pytest.raises(ValueError, match="weight: Expected a matrix"):
        native.pack_blocks(raw[0], one, one, used, blocks)


def test_wrong_banks_are_refused():
    raw, native = np.zeros((4, 8), np.uint32), library()
    values, words = np.zeros((1, 2, 2, 4), np.uint32), np.zeros((1, 1, 4), np.int32)
    assert native.pack_banks(raw, -1, 4, 1, 1, 2, values, words) == -1
    with pytest.raises(ValueError, match="runs of at least 9 columns"):
        native.pack_banks(raw, -1, 9, 1, 1, 2, values, words)
    with pytest.raises(ValueError, match="values: Expected 4 dimensions"):
        native.pack_banks(raw, -1, 4, 1, 1, 2, raw, words)
    with pytest.raises(ValueError, match="keep: Expected at most 1"):
        native.pack_banks(raw, -1, 1, 1, 1, 2, values, words)
    with pytest.raises(ValueError, match="a divisor of the banks that fits"):
        native.pack_banks(raw, -1, 4, 1, 1, 3, values, words)
    with pytest.raises(ValueError, match=r"share: Expected at least 1\. Got 0"):
        native.most_in_bank(raw, -1, 4, 4, 0, 1)
