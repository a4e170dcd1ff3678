"""A scan counts zeros in every element type and refuses what cannot be a weight."""

import numpy as np
import pytest
from hypothesis import given

from tests.matrices import DTYPES, matrices
from tvm_sparse.errors import InputError
from tvm_sparse.patterns import reference
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.scan import Scan


@given(matrices())
def test_counts(matrix):
    scan, nonzero = Scan(matrix), matrix != 0
    assert scan.nonzeros == nonzero.sum()
    assert scan.sparsity == pytest.approx(1 - nonzero.mean())
    np.testing.assert_array_equal(scan.nonzero(), nonzero)
    np.testing.assert_array_equal(scan.row_count, nonzero.sum(1))
    np.testing.assert_array_equal(scan.col_count, nonzero.sum(0))
    np.testing.assert_array_equal(reference.flags(scan.bits, scan.cols), nonzero)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint16, np.int64, bool])
def test_other_types(dtype):
    assert Scan(np.eye(5, 70).astype(dtype)).nonzeros == 5


def test_minus_zero_is_zero():
    assert Scan(np.full((2, 2), -0.0, np.float32)).nonzeros == 0


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_values_that_are_not_finite_are_refused_with_their_place(dtype, bad):
    weight = np.zeros((4, 6), np.float32)
    weight[2, 5], weight[3, 0] = bad, bad
    with pytest.raises(InputError, match=rf"fc: {bad} at \(2, 5\) of shape \(4, 6\)"):
        Scan(weight.astype(DTYPES[dtype]), name="fc")


def test_what_is_no_weight_matrix_is_refused():
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        Scan(np.zeros(3))
    with pytest.raises(InputError, match=r"shape \(0, 3\)"):
        Scan(np.zeros((0, 3)))
    with pytest.raises(InputError, match="dtype complex64"):
        Scan(np.zeros((2, 3), np.complex64))


def test_constants_and_views_are_taken():
    weight = np.eye(6, dtype=np.float32)
    weight.setflags(write=False)
    assert Scan(weight).nonzeros == 6
    assert Scan(weight[::2, ::-1]).nonzeros == 3


def test_an_analysis_is_made_once():
    scan, calls = Scan(np.eye(8)), []

    def diagonal(given):
        calls.append(given)
        return given.nonzeros

    assert (scan.once(diagonal), scan.once(diagonal)) == (8, 8)
    assert calls == [scan]
    assert scan.once(Balanced.find) is scan.once(Balanced.find)


def test_large_matrices_are_sampled_by_rows():
    assert Scan(np.zeros((64, 64), bool)).step == 1
    assert Scan(np.zeros((4096, 4096), bool)).step == 16
