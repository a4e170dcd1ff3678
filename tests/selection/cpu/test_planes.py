"""What is offered for a convolution that is channels first, and how the model ranks it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import host, integers
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection.cpu.planes import planes_candidate


def offered(size, sparsity, features=64, groups=4):
    shape = (1, size, size), 16, features, (3, 3), (1, 1), (1, 1), (size, size)
    c = Contraction(*shape, borders=(1, 1), groups=groups)
    matrix = integers(np.random.default_rng(0), c.matrix_shape, sparsity)
    return c, matrix, planes_candidate(c, Scan(matrix), host())


def test_exactly_the_nonzeros_are_kept():
    c, matrix, candidate = offered(14, 0.75)
    assert candidate.planes == c
    assert candidate.format.inner.entries == np.count_nonzero(matrix)
    arrays = candidate.format.encode(matrix)
    assert (candidate.format.decode(arrays) == matrix).all()


def test_the_model_prefers_zeros():
    costs = [offered(14, sparsity)[2].cost for sparsity in (0.0, 0.5, 0.75, 0.9)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 1 > costs[2]


@pytest.mark.parametrize("features", [20, 48, 252])
def test_tiles_divide_the_features_of_a_group(features):
    format = offered(9, 0.8, features, 1)[2].format.inner
    assert features % format.tile_rows == 0
