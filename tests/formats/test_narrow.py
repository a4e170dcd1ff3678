"""Half-precision values: exact round trips, refusal of values that would be rounded."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import integers
from tvm_sparse.base.numerics import HALVES
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.narrow import NarrowFormat, exact


@pytest.mark.parametrize("stored", HALVES)
@pytest.mark.parametrize("kind", [BalancedFormat, CompressedRowsFormat])
def test_round_trip(stored, kind):
    matrix = integers(np.random.default_rng(0), (40, 48), 0.7)
    format = NarrowFormat(kind.of(matrix), stored)
    arrays = format.encode(matrix)
    assert arrays["values"].dtype.itemsize == 2
    assert format.nbytes() == sum(a.nbytes for a in arrays.values())
    assert (format.decode(arrays) == matrix).all()


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (0.0, {"bfloat16", "float16"}),
        (-1.5, {"bfloat16", "float16"}),
        (1 + 2**-7, {"bfloat16", "float16"}),
        (1 + 2**-10, {"float16"}),
        (1 + 2**-11, set()),
        (2.0**100, {"bfloat16"}),
        (65504.0, {"float16"}),
    ],
)
def test_exactness(value, held):
    matrix = np.full((2, 2), value, np.float32)
    assert {stored for stored in HALVES if exact(matrix, stored)} == held


def test_refusals():
    matrix = np.full((16, 16), 1 / 3, np.float32)
    with pytest.raises(UnsupportedError, match="bfloat16 rounds"):
        NarrowFormat(BalancedFormat.of(matrix), "bfloat16").encode(matrix)
    with pytest.raises(UnsupportedError, match="int8"):
        NarrowFormat(BalancedFormat.of(matrix), "int8")
