"""Copies of models, which may share what is not changed."""

from __future__ import annotations

import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.pruning import squashed_copy
from tvm_sparse.pruning.copies import copied


def test_a_copy_shares_nothing():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    other = copied(model)
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    assert all(a.data_ptr() != b.data_ptr() and torch.equal(a, b) for a, b in pairs)


def test_a_copy_has_a_weight_of_its_own():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    model[2].weight = model[0].weight  # one weight of two layers stays one
    other = copied(model, [model[0].weight])
    with torch.no_grad():
        other[0].weight.zero_()
    assert model[0].weight.any()
    assert other[2].weight is other[0].weight
    own = {name for name, x in other.named_parameters() if x is not model.get_parameter(name)}
    assert own == {"0.weight"}
    assert other[1].running_mean is not model[1].running_mean  # a call may change it


def test_a_copy_without_masks_shares_what_has_none():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    ts.prune.unstructured(model[0], 0.5)
    before = model[0].weight.clone()
    plain = squashed_copy(model, shares=True)
    assert plain[1].weight is model[1].weight
    assert torch.equal(plain[0].weight, before)
    with torch.no_grad():
        plain[0].weight.zero_()
    assert torch.equal(model[0].weight, before)
