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


class Held(nn.Module):
    """A model with a tensor, registered or not, that a function may write into."""

    def __init__(self, function, registered: bool) -> None:
        super().__init__()
        self.function = function
        if registered:
            self.register_buffer("count", torch.zeros(2, 3))
        else:
            self.count = torch.zeros(2, 3)

    def forward(self, x):
        return self.function(x, self.count)


@pytest.mark.parametrize("registered", [True, False])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, count: x + count.add_(1),
        lambda x, count: count[0].copy_(x[0]) + x,
        lambda x, count: x + count.index_copy_(0, torch.tensor([1]), x[:1]),
    ],
)
def test_models_that_keep_something_between_calls_are_refused(function, registered):
    with pytest.raises(UnsupportedError, match=r"count.*take the tensor"):
        load(Held(function, registered), torch.randn(2, 3))


@pytest.mark.filterwarnings("ignore::tvm_sparse.errors.WrittenInputWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda x, count: (count + 1).add_(x),
        lambda x, count: count.clone().copy_(x),
        lambda x, count: x.mul_(2) + count,
        lambda x, count: torch.zeros_like(count).add_(x),
    ],
)
def test_writing_into_anything_else_is_fine(function):
    assert load(Held(function, True), torch.randn(2, 3)).outputs


class Two(Layer):
    def forward(self, x, y):
        return self.function(x, y)


def test_shapes_that_values_decide():
    def first(x, count):
        return torch.ones(count.item()).sum() * x

    with pytest.raises(UnsupportedError, match="values decide the shape"):
        load(Two(first), (torch.randn(6), torch.tensor(4)))
