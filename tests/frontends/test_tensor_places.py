"""Tensors of one integer as places to write to, beside other indices, and in ``narrow``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.frontends.program.tensor_places import TensorPlaces


def written(place, value=None):
    def function(y, k):
        held = y.clone()
        held[place(k)] = y[0, 0] if value is None else value(y)
        return held

    return function


FUNCTIONS = {
    "row": written(lambda k: k[0], lambda y: y[0]),
    "row of one": written(lambda k: k[0], lambda y: y[:1]),
    "column": written(lambda k: (slice(None), k[1]), lambda y: y[:, 0]),
    "both": written(lambda k: (k[0], k[1])),
    "last": written(lambda k: (..., k[1]), lambda y: y[:, 0]),
    "number": written(lambda k: k[0], lambda y: 1.0),
    "beside others": written(lambda k: (k[0], k)),
    "read beside others": lambda y, k: (y[k[0], k], y[k, k[1]], y[:, None, k[1]]),
    "narrow": lambda y, k: (y.narrow(0, k[0], 2), torch.narrow(y, 1, k[1], 1)),
    "mask": written(lambda k: (k[0], torch.tensor([True, False, True, False, True]))),
}


class Network(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, y, k):
        return self.function(y, k)


@pytest.mark.grid
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_pytorch(name):
    model = Network(FUNCTIONS[name])
    y, k = torch.randn(6, 5), torch.tensor([2, 1])
    library = ts.compile(model, (y, k), config=ts.Config(measure=False, cache=False, tuned=False))
    for places in (k, torch.tensor([4, 0]), torch.tensor([0, 4])):
        torch.testing.assert_close(library(y, places), model(y, places))


def test_other_indices_stay_as_they_are():
    x = torch.randn(4, 5)
    with TensorPlaces():
        assert torch.equal(x[1, 2:4], x[(1, slice(2, 4))])
        assert torch.equal(x[torch.tensor([0, 1])], x[:2])
        assert torch.equal(x[torch.tensor(True)], x[None])
