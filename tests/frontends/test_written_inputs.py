"""Inputs that a model writes into are told, unless the model returns them."""

import warnings

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.errors import UnsupportedError, WrittenInputWarning

STEP = (torch.ones(2, 4), torch.zeros(2, 3, 4), torch.tensor([1]))


class Cached(nn.Module):
    """Stores what it computes of a step in the caller's ``cache``."""

    def __init__(self, returned: str = "") -> None:
        super().__init__()
        self.key, self.returned = nn.Linear(4, 4), returned

    def forward(self, x, cache, step):
        cache.index_copy_(1, step, self.key(x)[:, None])
        sums = cache.sum(1)
        views = {"": sums, "whole": (sums, cache), "view": (sums, cache.view_as(cache))}
        return {**views, "part": (sums, cache[0])}[self.returned]


class Rectified(nn.Module):
    """Begins with an activation in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 2))

    def forward(self, x):
        return self.layers(x)


class Poured(nn.Module):
    """Has its result written into a tensor: an argument, or its own."""

    def __init__(self, own: bool) -> None:
        super().__init__()
        self.own = own
        self.register_buffer("memory", torch.zeros(2, 4))

    def forward(self, x, memory):
        return torch.add(x, 1, out=self.memory if self.own else memory) * 2


@pytest.mark.parametrize("returned", ["", "part"])
@pytest.mark.parametrize("decomposed", [False, True])
def test_an_input_that_is_changed_and_not_returned_is_named(returned, decomposed):
    program = torch.export.export(Cached(returned).eval(), STEP)
    if decomposed:
        program = program.run_decompositions()
    with pytest.warns(WrittenInputWarning, match="input 'cache': the model writes into it"):
        ts.load(program)


@pytest.mark.parametrize("returned", ["whole", "view"])
@pytest.mark.parametrize("decomposed", [False, True])
def test_an_input_that_is_returned_is_not(returned, decomposed):
    program = torch.export.export(Cached(returned).eval(), STEP)
    if decomposed:
        program = program.run_decompositions()
    with warnings.catch_warnings():
        warnings.simplefilter("error", WrittenInputWarning)
        ts.load(program)


def test_results_of_a_model_that_changes_its_input_are_right():
    model = Rectified().eval()
    x = torch.tensor([[-1.0, 2.0, -3.0, 4.0]])
    with pytest.warns(WrittenInputWarning, match="input 'x'"):
        library = ts.compile(model, x.clone(), config=ts.Config(measure=False))
    given = x.clone()
    torch.testing.assert_close(library(given), model(x.clone()))
    assert torch.equal(given, x)


def test_what_is_poured_into_an_argument_is_told_and_into_a_buffer_refused():
    inputs = (torch.ones(2, 4), torch.zeros(2, 4))
    with pytest.warns(WrittenInputWarning, match="input 'memory'"):
        ts.load(Poured(False).eval(), inputs)
    with pytest.raises(UnsupportedError, match="tensor 'memory': is changed by the model"):
        ts.load(Poured(True).eval(), inputs)
