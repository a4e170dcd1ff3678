"""Branches of ``torch.cond`` and blocks that set a mode become part of the graph around them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import SparseError


class Network(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 32), nn.Linear(32, 32)
        self.function = function

    def forward(self, x):
        return self.function(self, self.first(x))


def chosen(net, x):
    return torch.cond(x.sum() > 0, net.second, lambda a: a - 1, (x,))


def nested(net, x):
    def inner(a):
        return torch.cond(a[0, 0] > 0, lambda b: b * 2, lambda b: b * 3, (a,))

    return torch.cond(x.sum() > 0, inner, net.second, (x,))


def several(net, x):
    return torch.cond(x.sum() > 0, lambda a: (a, a * 2), lambda a: (a + 1, a.neg()), (x,))


def without_gradients(net, x):
    with torch.no_grad():
        y = net.second(x)
    with torch.enable_grad():
        return net.second(y)


@pytest.mark.grid
@pytest.mark.parametrize("function", [chosen, nested, several, without_gradients])
def test_values_are_those_of_pytorch_and_layers_stay_layers(function):
    model = Network(function).eval()
    ts.prune.balanced(model, 0.75).squash_mask()
    x = torch.randn(2, 32)
    config = ts.Config(measure=False, cache=False, tuned=False)
    library = ts.compile(model, (x,), config=config)
    layers = 1 if function is several else 2
    assert len(library.decisions.to_json()) >= layers
    for value in (x, -x, x + 3, x - 3):
        with torch.no_grad():
            torch.testing.assert_close(library(value), model(value), rtol=1e-5, atol=1e-5)


def test_an_assertion_in_a_branch_is_refused():
    def asserting(net, x):
        def branch(a):
            torch._assert_async((a < 0).all(), "negative")
            return a * 2

        return torch.cond(x.sum() > 0, branch, lambda a: a - 1, (x,))

    with pytest.raises(SparseError):
        ts.load(Network(asserting), (torch.randn(2, 32),))
