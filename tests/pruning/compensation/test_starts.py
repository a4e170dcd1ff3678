"""Runs that begin at a block give the statistics of runs of the whole network."""

import copy

import pytest
import torch
from torch import nn

from tvm_sparse.pruning.compensation import starts as starting
from tvm_sparse.pruning.compensation.collect import collect
from tvm_sparse.pruning.compensation.stages import stages_of
from tvm_sparse.pruning.compensation.starts import Starts
from tvm_sparse.pruning.layers import select


class Block(nn.Module):
    """Overwrites its input, as blocks may."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x, *, scale):
        x.add_(1)
        return x + self.down(torch.relu(self.up(x))) * scale


class Tower(nn.Module):
    def __init__(self, order):
        super().__init__()
        self.stem, self.blocks, self.order = nn.Linear(8, 8), nn.ModuleList(), order
        self.blocks.extend(Block() for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        for index in self.order:
            x = self.blocks[index](x, scale=0.5)
        return x


class Borrowed(Tower):
    """Calls a layer of a block from outside of it."""

    def forward(self, x):
        return super().forward(self.blocks[1].up(x)[..., :8])


def networks(kind=Tower, order=(0, 1, 2)):
    torch.manual_seed(0)
    model = kind(order)
    dense = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(0.9)
    return model, dense, [torch.randn(4, 5, 8) for _ in range(3)]


def statistics(model, dense, batches):
    begins, found = Starts(model, dense, batches), {}
    stages, _ = stages_of(model, select(model).layers, batches[0])
    modules = []
    for stage in stages:
        modules.append(next(begins.runs(stage)).module)
        for key, value in collect(stage, begins).items():
            found[key] = value.matrices()
    return found, modules


@pytest.mark.parametrize(
    ("kind", "order"), [(Tower, (0, 1, 2)), (Tower, (0, 1, 1, 2)), (Borrowed, (0, 1, 2))]
)
def test_they_equal_those_of_whole_runs(kind, order, monkeypatch):
    model, dense, batches = networks(kind, order)
    kept = [b.clone() for b in batches]
    ours, modules = statistics(model, dense, batches)
    assert any(isinstance(m, Block) for m in modules)
    monkeypatch.setattr(starting, "blocks_of", lambda model: [])
    theirs, modules = statistics(model, dense, batches)
    assert all(m is model for m in modules)
    assert ours.keys() == theirs.keys()
    for key, pair in ours.items():
        assert all(torch.equal(a, b) for a, b in zip(pair, theirs[key], strict=True)), key
    assert all(torch.equal(a, b) for a, b in zip(batches, kept, strict=True))


def test_a_block_that_is_called_twice_runs_with_the_network():
    model, dense, batches = networks(order=(0, 1, 1, 2))
    _, modules = statistics(model, dense, batches)
    assert [m is model for m in modules].count(True) == 3  # the stem, and the layers of block 1


def test_inputs_that_are_too_large_are_not_kept(monkeypatch):
    monkeypatch.setattr(starting, "MOST_BYTES", 1000)
    model, dense, batches = networks()
    _, modules = statistics(model, dense, batches)
    assert all(m is model for m in modules)
