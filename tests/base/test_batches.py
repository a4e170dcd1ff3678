"""Batches: several of them, and what is said where one stands in their place."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.base.batches import several

X = torch.zeros(2, 32)


def one_shot(batches):
    return ts.prune.one_shot(nn.Linear(32, 4), batches, ts.prune.BalancedPruning(0.75))


ENTRIES = {
    "quantize": lambda batches: ts.quantize(nn.Linear(32, 4), batches),
    "one_shot": one_shot,
    "batch norms": lambda batches: ts.prune.reestimate_batch_norms(nn.BatchNorm1d(32), batches),
    "distil": lambda batches: ts.prune.distil(nn.Linear(32, 4), nn.Linear(32, 4), batches, 1),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    ("batches", "told"),
    [
        (X, "got one Tensor in the place of several batches; .*pass \\[batch\\]"),
        ({"input": X}, "got one dict in the place of several batches"),
        (3, "is of type int"),
        ([], "got no batch"),
    ],
)
def test_what_is_no_list_of_batches_is_told(entry, batches, told):
    with pytest.raises(ts.InputError, match=told):
        ENTRIES[entry](batches)


def test_all_that_an_iterator_has_is_kept():
    given = [X, X]
    assert several("data", given) is given
    assert several("data", iter(given)) == given
