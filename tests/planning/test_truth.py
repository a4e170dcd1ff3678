"""Drops of networks that are pruned in one shot, and of stitched ones beside them."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from tvm_sparse.planning import truth
from tvm_sparse.planning.candidates import candidates_of
from tvm_sparse.planning.losses import losses, prunable
from tvm_sparse.planning.stitching import drop_of, outputs
from tvm_sparse.planning.truth import Truth
from tvm_sparse.pruning import BalancedPruning, KeepAll, LayerPruning, one_shot
from tvm_sparse.pruning.compensation.calls import parted
from tvm_sparse.pruning.copies import copied

CANDIDATES = candidates_of([BalancedPruning(0.75)], [0.5, 0.75, 0.875])


@pytest.fixture
def made():
    torch.manual_seed(0)
    widths = (32, 48, 48, 32)
    layers = [m for a, b in itertools.pairwise(widths) for m in (nn.Linear(a, b), nn.ReLU())]
    model = nn.Sequential(*layers[:-1]).eval()
    batches = [torch.randn(64, 32) for _ in range(5)]
    network, selection = prunable(model, batches, ("*",), ())
    _, stitched = losses(network, selection, batches, CANDIDATES, lambda *_: None)
    return network, batches, Truth(network, selection, batches, CANDIDATES, stitched)


def test_a_drop_is_that_of_one_shot_on_other_batches_than_it_read(made):
    network, batches, found = made
    own = copied(network)
    layers = {"0.weight": BalancedPruning(0.75), "2.weight": BalancedPruning(0.5)}
    method = LayerPruning({**layers, "4.weight": KeepAll()})
    one_shot(own, batches[:1], method, steps=8, swaps=0)  # 64 samples do
    wanted = drop_of([outputs(own, batches[-1])], [outputs(network, batches[-1])])
    assert found.drop([2, 1, 0]) == pytest.approx(wanted, rel=3e-3) and wanted > 0  # in float32
    assert found.drop([0, 0, 0]) == 0


def test_after_the_last_one_the_stitched_are_corrected_by_those_before(made, monkeypatch):
    _, _, found = made
    found.left = 2
    low, high = found.drop([1, 1, 1]), found.drop([2, 2, 2])
    monkeypatch.setattr(found, "_drop", lambda choice: pytest.fail("pruned once more"))
    between, beyond = found.drop([2, 1, 1]), found.drop([3, 3, 3])
    assert low < between < high < beyond <= 1
    assert found.drop([2, 2, 2]) == high


def test_a_large_network_is_pruned_seldom(made, monkeypatch):
    network, batches, found = made
    monkeypatch.setattr(truth, "WEIGHTS", 6000)
    _, selection = prunable(network, batches, ("*",), ())
    assert found.left == truth.MOST
    assert Truth(network, selection, batches, CANDIDATES, found.stitched).left == truth.LEAST


def test_networks_are_judged_on_the_last_quarter():
    batches = [torch.full((1,), float(i)) for i in range(9)]
    fitted, judged = parted(batches)
    assert [int(x) for x in fitted + judged] == list(range(9)) and len(judged) == 2
    assert parted(batches[:1]) == (batches[:1], batches[:1])
