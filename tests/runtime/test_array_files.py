"""Arrays in files, and bfloat16 that NumPy lacks."""

import ml_dtypes
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tvm_sparse_runtime.array_files import arguments, numbers
from tvm_sparse_runtime.spec import TensorSpec

NARROW, WIDE = TensorSpec("x", ("n",), "bfloat16"), TensorSpec("y", ("n",), "float32")
SINGLES = arrays(np.float32, st.integers(0, 9), elements=st.floats(width=32))


@given(SINGLES)
def test_singles_are_rounded_as_ml_dtypes_rounds(values):
    (given_,) = arguments([values], [NARROW], [WIDE])
    wanted = values.astype(ml_dtypes.bfloat16)
    assert str(given_.dtype) == "bfloat16"
    np.testing.assert_array_equal(numbers(given_), wanted.astype(np.float32))
    np.testing.assert_array_equal(numbers(wanted), wanted.astype(np.float32))


def test_bits_are_taken_as_they_are():
    values = np.array([1.5, -2, np.inf, np.nan]).astype(ml_dtypes.bfloat16)
    (given_,) = arguments([values.view("V2")], [NARROW], [WIDE])
    np.testing.assert_array_equal(numbers(given_), [1.5, -2, np.inf, np.nan])


def test_nothing_else_is_touched():
    values = np.ones(3, "float32")
    assert arguments([values], [WIDE], [WIDE])[0] is values
    assert arguments([values, values], [NARROW], [WIDE])[0] is values
    foreign = np.ones(3, ">f4"), np.ones(3, "complex64"), np.ones(3, "float16")
    assert [arguments([a], [NARROW], [WIDE])[0].dtype for a in foreign[:2]] == [
        a.dtype for a in foreign[:2]
    ]
    assert str(arguments([foreign[2]], [NARROW], [WIDE])[0].dtype) == "float16"
    assert numbers(values) is values
