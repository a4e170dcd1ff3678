"""What formats share: refusals and sizes."""

import numpy as np
import pytest

from tests.matrices import DTYPES
from tvm_sparse.errors import InputError
from tvm_sparse.formats.arrays import finite_matrix, index_dtype, itemsize


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place(dtype, bad):
    matrix = np.zeros((3, 5), np.float32)
    matrix[2, 4] = bad
    with pytest.raises(InputError, match=r"layer: \S+ at row 2, column 4; expected finite"):
        finite_matrix(matrix.astype(DTYPES[dtype]), (3, 5), "layer")


def test_other_shapes_are_refused():
    with pytest.raises(InputError, match=r"shape \(2, 3\); expected \(3, 2\)"):
        finite_matrix(np.zeros((2, 3)), (3, 2), "layer")


def test_integers_views_and_constants_are_taken():
    whole = np.arange(12, dtype=np.int8).reshape(3, 4)
    view = whole[:, ::2]
    taken = finite_matrix(view, (3, 2), "layer")
    assert taken.flags["C_CONTIGUOUS"]
    np.testing.assert_array_equal(taken, view)
    whole.setflags(write=False)
    assert finite_matrix(whole, (3, 4), "layer").flags["WRITEABLE"]


def test_sizes():
    assert [itemsize(d) for d in ("int8", "bfloat16", "float16", np.float32)] == [1, 2, 2, 4]
    assert [index_dtype(n).name for n in (256, 257, 2**16, 2**16 + 1)] == [
        "uint8",
        "uint16",
        "uint16",
        "int32",
    ]
