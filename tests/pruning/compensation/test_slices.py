"""Layers with too many columns for one matrix: groups of channels, patterns that hold."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.pruning.test_one_shot import METHODS, correlated, distance
from tvm_sparse.patterns.exchange import Exchange
from tvm_sparse.patterns.lowering import ORDERS, lower
from tvm_sparse.pruning.compensation import slices as module
from tvm_sparse.pruning.compensation.slices import Slices, slices_of
from tvm_sparse.pruning.layers import select


@pytest.fixture
def small(monkeypatch):
    """Matrices of at most 32 x 32."""
    monkeypatch.setattr(module, "ELEMENTS", 1 << 10)
    monkeypatch.setattr(module, "ALIGNED", 16)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("channels", [96, 90, 17])
def test_a_weight_in_parts_is_whole_again(channels, order):
    weight = np.arange(4 * channels * 6).reshape(4, channels, 2, 3)
    slices = Slices(channels, 32)
    parts = slices.parts(weight, order)
    assert parts.shape == (slices.count * 4, 32 * 6)
    assert (slices.whole(parts, weight.shape, order) == weight).all()


@pytest.mark.parametrize("channels", [96, 90])
def test_groups_together_give_what_the_layer_gives(channels):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randint(-4, 5, (1, 7, channels * 6), generator=generator).double()
    weight = torch.randint(-4, 5, (5, channels, 6), generator=generator).double()
    slices = Slices(channels, 32)
    inputs = slices.inputs(rows)
    parts = torch.from_numpy(slices.parts(weight.numpy(), "ihw")).unflatten(0, (slices.count, -1))
    assert torch.equal((inputs @ parts.mT).sum(0), rows[0] @ weight.flatten(1).T)


@pytest.mark.parametrize(
    ("channels", "order", "exchange", "held"),
    [
        (128, "hwi", Exchange(pool=16), True),
        (128, "ihw", Exchange(pool=16), True),
        (100, "ihw", Exchange(pool=16), False),  # the last group is filled up within a bank
        (100, "hwi", Exchange(pool=16), False),  # banks go across taps
        (112, "hwi", Exchange(pool=16), True),
        (100, "hwi", Exchange(), True),
        (100, "hwi", Exchange(width=4, blocks=(4, 4)), True),
        (112, "hwi", Exchange(width=32), False),
    ],
)
def test_pools_of_a_group_are_those_of_the_matrix(channels, order, exchange, held):
    assert Slices(channels, 32).keeps(exchange, (8, channels, 3, 3), order) is held


def test_only_wide_layers_are_cut():
    wide = nn.Conv2d(1024, 4, (64, 1))
    convs = nn.Sequential(nn.Conv2d(512, 4, 3), nn.Linear(25088, 4), wide, nn.Conv1d(4, 4, 9000))
    found = [slices_of(layer) for layer in select(convs, ("*",), ()).layers]
    assert found == [None, Slices(25088, 1280), Slices(1024, 8), Slices(4, 1)]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "method", [m for m in METHODS if m != ts.prune.JointPruning(0.5)], ids=repr
)
@pytest.mark.parametrize("convolution", [False, True])
def test_patterns_hold_and_outputs_are_near(method, convolution):
    torch.manual_seed(0)
    first = nn.Conv2d(32, 32, (3, 1)) if convolution else nn.Linear(96, 32)
    model = nn.Sequential(first, nn.ReLU(), nn.Flatten(), nn.Linear(32, 32))
    x = correlated(256, 96)
    x = x.reshape(256, 32, 3, 1) if convolution else x
    plain, batches = copy.deepcopy(model), list(x.split(64))
    ts.prune.prune(plain, method).squash_mask()
    pruned = copy.deepcopy(model)
    ts.prune.one_shot(pruned, batches, method).squash_mask()
    for ours, other in zip(pruned.parameters(), plain.parameters(), strict=True):
        assert (ours == 0).sum() >= (other == 0).sum() * 0.98
    if isinstance(method, ts.prune.BalancedPruning) and method.rounding != "reach":
        kept = lower(pruned[0].weight.detach().numpy(), method.order) != 0
        counts = kept.reshape(32, -1, method.bank).sum(2)
        assert (counts <= method.bank * (1 - method.sparsity)).all()
    assert distance(pruned, model, x) < distance(plain, model, x)


def test_a_group_is_fitted_as_a_layer_of_its_own(monkeypatch):
    monkeypatch.setattr(module, "ELEMENTS", 1 << 11)
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 16, bias=False), correlated(256, 64)
    halves = [nn.Linear(32, 16, bias=False) for _ in range(2)]
    for half, weight in zip(halves, layer.weight.detach().split(32, 1), strict=True):
        half.weight.data = weight.clone()
    method = ts.prune.BalancedPruning(0.5)
    ts.prune.one_shot(layer, [x], method).squash_mask()
    for half, inputs in zip(halves, x.split(32, 1), strict=True):
        ts.prune.one_shot(half, [inputs], method).squash_mask()
    together = torch.cat([half.weight for half in halves], 1)
    assert torch.allclose(layer.weight, together, atol=1e-5)
