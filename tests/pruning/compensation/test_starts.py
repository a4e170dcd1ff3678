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


class Pure(Block):
    """Leaves its input alone, and counts its runs."""

    runs = 0

    def forward(self, x, *, scale):
        self.runs += 1
        return super().forward(x.clone(), scale=scale)


class Tower(nn.Module):
    block = Block

    def __init__(self, order):
        super().__init__()
        self.stem, self.blocks, self.order = nn.Linear(8, 8), nn.ModuleList(), order
        self.blocks.extend(self.block() for _ in range(3))

    def forward(self, x):
        x = self.stem(x)
        for index in self.order:
            x = self.blocks[index](x, scale=0.5)
        return x


class Borrowed(Tower):
    """Calls a layer of a block from outside of it."""

    def forward(self, x):
        return super().forward(self.blocks[1].up(x)[..., :8])


class PureTower(Tower):
    """Reads what blocks returned again at its end, as a U-Net does."""

    block = Pure

    def forward(self, x):
        x = self.stem(x)
        results = [x]
        for index in self.order:
            results.append(self.blocks[index](results[-1] + results[0], scale=0.5))
        return sum(results)


class PureBorrowed(PureTower):
    """Calls a layer of its last block in front of the first."""

    def forward(self, x):
        return super().forward(self.blocks[2].up(x)[..., :8])


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
    ("kind", "order"),
    [
        (Tower, (0, 1, 2)),
        (Tower, (0, 1, 1, 2)),
        (Borrowed, (0, 1, 2)),
        (PureTower, (0, 1, 2)),
        (PureTower, (2, 0, 1)),
        (PureTower, (0, 1, 1, 2)),
        (PureBorrowed, (0, 1, 2)),
    ],
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


def test_a_block_runs_for_its_own_stages_and_once_more():
    model, dense, batches = networks(PureTower)
    statistics(model, dense, batches)
    # Three batches, two stages: 6 runs; 3 for what it returns, which nobody asks of the last block;
    # one that finds the stages; one of the first batch for each block whose inputs are looked for.
    assert [block.runs for block in model.blocks] == [6 + 3 + 1 + 1, 6 + 3 + 1 + 2, 6 + 1 + 3]


def test_blocks_that_change_while_others_are_looked_at_are_run_with_their_new_weights():
    model, dense, batches = networks(PureTower)
    begins = Starts(model, dense, batches)
    stages, _ = stages_of(model, select(model).layers, batches[0])
    for stage in stages:
        found = {key: value.matrices() for key, value in collect(stage, begins).items()}
        afresh = {
            key: value.matrices()
            for key, value in collect(stage, Starts(model, dense, batches)).items()
        }
        for key, pair in found.items():
            assert all(torch.equal(a, b) for a, b in zip(pair, afresh[key], strict=True)), key
        with torch.no_grad():  # as pruning does, when the stage has been seen
            for layer in stage.layers:
                layer.module.weight.mul_(0.5)


def test_blocks_have_their_own_forward_again():
    model, dense, batches = networks(PureTower)
    before = model.blocks[0].forward = model.blocks[0].forward
    statistics(model, dense, batches)
    assert vars(model.blocks[0])["forward"] is before
    assert "forward" not in vars(model.blocks[1])
