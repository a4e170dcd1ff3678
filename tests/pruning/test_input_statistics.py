"""Products of the columns of a layer's inputs, here and in the dense network."""

from __future__ import annotations

import pytest
import torch

from tvm_sparse.pruning.compensation.statistics import InputStatistics

BATCHES = [torch.randint(-4, 5, (2, rows, 6)).float() for rows in (1, 9, 3, 8, 2)]
"""Some have fewer rows than columns, and wait."""


@pytest.mark.parametrize("others", [(), (0,), (4,), (1,), (1, 2), (0, 1, 2, 3, 4)], ids=str)
def test_inputs_that_are_the_dense_ones_are_multiplied_once(others):
    statistics, gram, cross = InputStatistics("layer"), 0, 0
    for i, x in enumerate(BATCHES):
        dense = x + 1 if i in others else x
        statistics.add(x, dense)
        gram, cross = gram + x.mT @ x, cross + dense.mT @ x
    found = statistics.matrices()
    assert torch.equal(found[0], gram.double())
    assert torch.equal(found[1], cross.double())
    assert (found[0] is found[1]) is (not others)
