"""2:4 in the order of Hopper's shared memory: its round trip, and where values and places lie."""

import numpy as np
import pytest

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.swizzled_quads import SwizzledQuadsFormat
from tvm_sparse.patterns.balanced import Balanced


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("shape", [(64, 128), (130, 200), (5, 9), (128, 520)])
@pytest.mark.parametrize("block_rows", [64, 128])
def test_round_trip(shape, keep, block_rows):
    rng = np.random.default_rng(0)
    rows, cols = shape
    whole = rows, -(-cols // 4) * 4
    mask = Balanced(4, keep).project(rng.random(whole, dtype=np.float32))
    matrix = (rng.integers(1, 9, whole) * mask).astype(np.float16)[:, :cols]
    format = SwizzledQuadsFormat(rows, cols, block_rows)
    arrays = format.encode(matrix)
    assert np.array_equal(format.decode(arrays), matrix)
    assert format.nbytes() == sum(a.nbytes for a in arrays.values())


def test_places_of_a_value():
    """Row 25 is row 9 of a warp, so in a high half; column 118 is in the fourth product of 32."""
    matrix = np.zeros((64, 128), np.float16)
    matrix[16 + 9, 118] = 3
    arrays = SwizzledQuadsFormat(64, 128, 64).encode(matrix)
    quad, place = divmod(118, 4)
    stored = 2 * quad  # the only nonzero of its quad comes with a zero
    chunk, within = divmod(int(np.flatnonzero(arrays["values"][0, 0, 25])[0]), 8)
    assert (chunk ^ 25 % 8) * 8 + within in (stored, stored + 1)
    words = arrays["metadata"].view(np.uint32).reshape(4, 4, 8, 2)  # product, warp, row, half
    nibble = int(words[118 // 32, 1, 1, 118 % 32 // 16]) >> (16 + 4 * (quad % 4)) & 15
    assert place in (nibble & 3, nibble >> 2)


def test_what_does_not_fit_is_refused():
    with pytest.raises(UnsupportedError, match="3 nonzeros in 4"):
        SwizzledQuadsFormat(64, 128, 64).encode(np.tile([1, 1, 1, 0], (64, 32)).astype("f2"))
    with pytest.raises(UnsupportedError, match="multiple of 64"):
        SwizzledQuadsFormat(64, 128, 96)
