"""Random operators are refused by name, unless they are given arguments without chance."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.load import load


class Layer(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.dropout(x, 0.5, training=True),
        torch.rand_like,
        torch.bernoulli,
        lambda x: x + torch.randn(4),
        lambda x: torch.normal(x, 1.0),
        lambda x: F.rrelu(x, training=True),
    ],
)
def test_random_operators_are_refused(function):
    with pytest.raises(UnsupportedError, match=r"layer '0': operator .* draws random numbers"):
        load(nn.Sequential(Layer(function)), torch.rand(4))


def test_dropout_in_evaluation_does_nothing():
    model = load(nn.Sequential(nn.Dropout(0.5), nn.ReLU(), nn.AlphaDropout(0.2)), torch.rand(4))
    assert [spec.shape for spec in model.outputs] == [(4,)]
