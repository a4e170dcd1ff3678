"""2:4 format: its round trip, and the instruction that reads it, emulated from the PTX ISA."""

import numpy as np
import pytest

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.two_four import TwoFourFormat
from tvm_sparse.patterns.balanced import Balanced


def pruned(rng, shape, keep=2):
    values = rng.integers(1, 9, shape).astype(np.float16)
    return values * Balanced(4, keep).project(rng.random(shape, dtype=np.float32))


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("shape", [(32, 32), (33, 70), (96, 160), (5, 9)])
def test_round_trip(shape, keep):
    rng = np.random.default_rng(0)
    rows, cols = shape
    matrix = pruned(rng, (rows, -(-cols // 4) * 4), keep)[:, :cols]
    format = TwoFourFormat(rows, cols, 64, 32)
    arrays = format.encode(matrix)
    assert np.array_equal(format.decode(arrays), matrix)
    assert format.nbytes() == sum(a.nbytes for a in arrays.values())


def test_full_quads_are_refused():
    with pytest.raises(UnsupportedError, match="3 nonzeros in 4"):
        TwoFourFormat(32, 32, 32, 32).encode(np.tile([1, 1, 1, 0], (32, 8)).astype(np.float16))
    with pytest.raises(UnsupportedError, match="multiples of 32"):
        TwoFourFormat(32, 32, 48, 32)


def mma_sp(a, metadata, b, selector):
    """``mma.sp.m16n8k32`` on registers, for sums of zero: what it gives each lane.

    ``a`` has eight values of 32 lanes, ``metadata`` a word of each, ``b`` eight values of each.
    In a group of four lanes, the pair ``selector`` of them holds the metadata; the first of the
    pair for columns 0 to 15, the second for the others (PTX ISA, "Sparse matrix format").
    """
    left, right = np.zeros((16, 32)), np.zeros((32, 8))
    for lane in range(32):
        group, member = divmod(lane, 4)
        for i in range(8):
            row = group if i < 2 or 4 <= i < 6 else group + 8
            stored = member * 2 + i % 2 + (8 if i >= 4 else 0)  # of the 16 stored in this row
            chunk, place = divmod(stored, 8)
            word = int(metadata[4 * group + 2 * selector + chunk]) >> (16 if row >= 8 else 0)
            left[row, 4 * (stored // 2) + (word >> 2 * place & 3)] = a[lane, i]
            right[member * 2 + i % 2 + 8 * (i // 2), group] = b[lane, i]
    sums, out = left @ right, np.zeros((32, 4))
    for lane in range(32):
        group, member = divmod(lane, 4)
        for i in range(4):
            out[lane, i] = sums[group + 8 * (i // 2), member * 2 + i % 2]
    return out


@pytest.mark.parametrize("keep", [1, 2])
def test_the_instruction_multiplies_what_was_stored(keep):
    rng = np.random.default_rng(1)
    matrix, x = pruned(rng, (32, 32), keep), rng.integers(-9, 9, (8, 32))
    arrays = TwoFourFormat(32, 32, 32, 32).encode(matrix)
    values, words = arrays["values"].reshape(2, 32, 8), arrays["metadata"].view(np.uint32).ravel()
    b = np.array(
        [[x[n // 4, n % 4 * 2 + i % 2 + 8 * (i // 2)] for i in range(8)] for n in range(32)]
    )
    expected = matrix.astype(float) @ x.T
    for half in range(2):
        out = mma_sp(values[half], words, b, half)
        for lane in range(32):
            for i in range(4):
                row, column = lane // 4 + 8 * (i // 2), lane % 4 * 2 + i % 2
                assert out[lane, i] == expected[16 * half + row, column]
