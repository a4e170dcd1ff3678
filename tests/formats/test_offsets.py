"""What zero points add to sums, and weights whose sums may leave 32 bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.integers import as_integers, sparse_bytes
from tests.kernels import host
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.formats.offsets import MOST_MAGNITUDE, OffsetFormat
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.dense import dense, dense_format
from tvm_sparse.selection.narrow import stored


@pytest.mark.parametrize("zero", [0, 1, 128, 255])
def test_offsets_are_sums_of_rows(zero):
    matrix = sparse_bytes(np.random.default_rng(0), (21, 70), 0.5)
    inner = BalancedFormat.of(matrix, bank=64, depth=4)
    format = OffsetFormat(inner, 21, zero)
    arrays = format.encode(matrix)
    np.testing.assert_array_equal(arrays["offsets"], -zero * matrix.astype(int).sum(1))
    np.testing.assert_array_equal(format.decode(arrays), matrix)
    assert format.nbytes() == sum(a.nbytes for a in arrays.values())
    assert list(arrays)[-1] == "offsets", "the order of the operator's parameters"


def test_sums_that_may_leave_32_bits_are_refused():
    most = MOST_MAGNITUDE
    whole, rest = divmod(most, 128)
    matrix = np.full((2, whole + 1), -128, np.int8)
    matrix[:, -1] = -rest
    format = OffsetFormat(DenseFormat(*matrix.shape, depth=4), 2, 0)
    assert format.encode(matrix)["offsets"].dtype == np.int32
    matrix[1, -1] -= 1
    with pytest.raises(UnsupportedError, match=f"{most + 1} in row 1"):
        format.encode(matrix)


@pytest.mark.parametrize(
    ("activation", "zero", "added"),
    [("uint8", 0, False), ("uint8", 3, True), ("int8", 0, True), ("int8", -128, False)],
)
def test_sums_are_left_alone_where_nothing_is_added(activation, zero, added):
    c = as_integers(Contraction((3,), 64, 32), activation, zero)
    inner = dense_format(c, host())
    assert isinstance(stored(inner, c, host()), OffsetFormat) == added
    assert len(dense(c, inner, host()).params) == 3 + added
