"""What layers are fitted to: methods and layers that share statistics do not disturb each other."""

import pytest
import torch
from torch import nn

from tvm_sparse.patterns.block import Block
from tvm_sparse.pruning import BalancedPruning, PatternPruning
from tvm_sparse.pruning.compensation.layer import Compensation, judged
from tvm_sparse.pruning.compensation.statistics import InputStatistics
from tvm_sparse.pruning.layers import select

METHODS = (
    BalancedPruning(0.5, bank=8),
    PatternPruning(Block(4, 4), 0.5, "ihw"),
    BalancedPruning(0.75, bank=16),
)


def statistics():
    found = InputStatistics("0")
    dense = torch.randn(1, 200, 32, generator=torch.Generator().manual_seed(1))
    found.add(dense + 0.1 * dense.roll(1, 2), dense)
    return found


@pytest.mark.parametrize("swept", [False, True])
def test_methods_that_share_statistics_find_what_each_finds_alone(swept):
    torch.manual_seed(0)
    selection = select(nn.Sequential(nn.Linear(32, 16), nn.Linear(32, 24)), ("*",), ())
    shared = statistics()
    for method in METHODS:
        for layer in selection:
            compensation = Compensation(method, steps=8, swaps=0, swept=swept)
            ours = compensation.prune(layer, selection, shared)
            alone = compensation.prune(layer, selection, statistics())
            assert torch.equal(ours.weight, alone.weight)
            assert ours.loss == alone.loss > 0
            loss = judged(layer, ours.weight, shared)
            assert loss == judged(layer, ours.weight, statistics()) > 0
