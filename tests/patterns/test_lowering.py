"""Both column orders, there and back."""

import numpy as np
import pytest

from tvm_sparse.patterns.lowering import ORDERS, lower, raise_


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(3, 4), (3, 4, 5), (2, 3, 4, 5), (2, 3, 2, 2, 3)])
def test_there_and_back(shape, order):
    weight = np.arange(np.prod(shape)).reshape(shape)
    matrix = lower(weight, order)
    assert matrix.shape == (shape[0], np.prod(shape[1:]))
    np.testing.assert_array_equal(raise_(matrix, shape, order), weight)


def test_columns():
    weight = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2)
    i, y, x = 2, 1, 0
    assert lower(weight)[1, i * 4 + y * 2 + x] == weight[1, i, y, x]
    assert lower(weight, "hwi")[1, (y * 2 + x) * 3 + i] == weight[1, i, y, x]
