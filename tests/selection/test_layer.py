"""Layers: what groups look like where several of them are stored as one."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import integers
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.layer import Layer


@pytest.mark.parametrize("joined", [1, 2, 4])
def test_joined_groups_are_blocks_on_a_diagonal(joined):
    weight = integers(np.random.default_rng(0), (8, 3, 2, 1), 0.3)
    contraction = Contraction(
        (1, 5, 5), 3 * joined, 8, (2, 1), (1, 1), (1, 1), (6, 5), groups=4 // joined
    )
    layer = Layer("conv", "conv2d", contraction, weight, joined)
    stored = layer.stored
    assert stored.shape == (8, 3 * joined, 2, 1)
    assert layer.matrix.shape == contraction.matrix_shape
    assert (layer.scan().weight == layer.matrix).all()
    for feature in range(8):
        first = feature // 2 % joined * 3
        assert (stored[feature, first : first + 3] == weight[feature]).all()
        assert np.count_nonzero(stored[feature]) == np.count_nonzero(weight[feature])
    assert layer.sparsity == np.mean(weight == 0)
