"""Reductions over an open extent that may have no element give their initial value."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
REDUCTIONS = {
    "sum": lambda x: x[:, 1:].sum(-1) + 1,
    "all": lambda x: x[:, 1:].sum(),
    "products": lambda x: ((x[:, 1:] - x[:, :-1]) * x[:, 1:]).sum(-1),
    "product": lambda x: x[:, 1:].prod(-1),
    "count": lambda x: (x[:, 1:] > 2).sum(-1),
    "any": lambda x: (x[:, 1:] > 2).any(-1),
    "all true": lambda x: (x[:, 1:] > 0).all(-1),
    "any number": lambda x: (x[:, 1:] - 3).any(),
    "rows": lambda x: x.mT[1:].sum(0),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_nothing_is_reduced(name):
    function = REDUCTIONS[name]
    shapes = ({1: Dim("n", min=1, max=40)},)
    library = ts.compile(Apply(function), (torch.ones(3, 5),), dynamic_shapes=shapes, config=CONFIG)
    for size in (1, 2, 5, 17):
        x = torch.arange(3 * size).reshape(3, size).remainder(3).float() + 1
        for _ in range(3):
            assert torch.equal(library(x), function(x))
