"""Extents that code rounds from real numbers: traced in whole ones, equal to eager's."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.fx.experimental.sym_node import SymNode

import tvm_sparse as ts
from tvm_sparse.frontends.program.whole_quotients import WholeQuotients

USES = {
    "a half, up": lambda n: math.ceil(n / 2),
    "a half, down": lambda n: math.floor(n / 2),
    "a third, up": lambda n: math.ceil(n / 3),
    "a third, down": lambda n: math.floor(n / 3) + 1,
    "three eighths": lambda n: math.ceil(n * 0.375),
    "a factor in front": lambda n: math.floor(1.5 * n),
    "a factor, then a fifth": lambda n: math.ceil(n * 0.5 / 5),
    "frames, up": lambda n: math.ceil((n - 3) / 5 + 1),
    "frames, less one": lambda n: math.ceil(n / 7 - 1) + 2,
    "in front of it": lambda n: math.floor(2 + n / 3),
    "from a number": lambda n: math.ceil(50 - n / 3),
    "with an extent": lambda n: math.ceil(n / 3 + n),
    "the nearest of halves": lambda n: round(n / 2),
    "the nearest of thirds": lambda n: round(n / 3) + 1,
    "the nearest of sixths": lambda n: 1 + round(n / 6),
    "a tenth": lambda n: math.ceil(n * 0.1),
    "three tenths": lambda n: math.ceil(0.3 * n),
    "cut": lambda n: math.trunc(n * 0.75),
    "a float over a float": lambda n: math.ceil(float(4) * n / 8.0),
}


class Sized(nn.Module):
    """Nearest neighbours in a row of as many as ``use`` says of its columns."""

    def __init__(self, use):
        super().__init__()
        self.use = use

    def forward(self, x):
        return nn.functional.interpolate(x, self.use(x.shape[-1])) * 2


@pytest.mark.parametrize("name", USES)
def test_sizes_are_those_of_eager(name):
    model = Sized(USES[name])
    dims = ({2: Dim("n", min=3, max=70)},)
    library = ts.compile(model, (torch.randn(1, 2, 12),), dynamic_shapes=dims)
    for extent in (3, 4, 5, 8, 31, 64, 70):
        x = torch.randn(1, 2, extent)
        assert torch.equal(library(x), model(x))


LEFT = {7, 11, 14, 22, 23, 27, 28}
"""Tenths, of which a real number is too far from the fraction to have all whole products of it."""


def _traced(use, least=0):
    """Return the form of ``use`` of an open extent, and its symbol."""

    class Model(nn.Module):
        def forward(self, x):
            found.append(use(x.shape[0]).node.expr)
            return x + 1

    found = []
    with WholeQuotients():
        torch.export.export(
            Model(), (torch.ones(max(least, 7)),), dynamic_shapes=({0: Dim("n", min=least)},)
        )
    (symbol,) = found[0].free_symbols
    return found[0], symbol


@settings(max_examples=25)
@given(
    extent=st.integers(3, 2**40),
    factor=st.integers(1, 1000),
    bits=st.integers(0, 10),
    divisor=st.integers(1, 1000),
    rounded=st.sampled_from([math.floor, math.ceil, math.trunc, round]),
)
def test_forms_have_the_value_that_python_computes(extent, factor, bits, divisor, rounded):
    by = factor / (1 << bits)

    def use(n):
        return rounded(n * by / divisor)

    form, symbol = _traced(use, 3)
    assert int(form.subs(symbol, extent)) == use(extent)
    assert "IntTrueDiv" not in str(form)


class Pixels(nn.Module):
    """A layer of each pixel of planes that are resized, behind which their extents are asked."""

    def __init__(self, by):
        super().__init__()
        self.by = by
        self.layers = nn.ModuleList([nn.Conv2d(4, 3, 1, 2), nn.Linear(3, 3), nn.Conv2d(3, 2, 1)])

    def forward(self, x):
        x = nn.functional.interpolate(self.layers[0](x), scale_factor=self.by)
        rows = self.layers[1](x.flatten(2).mT).mT
        return self.layers[2](rows.reshape(x.shape[0], -1, x.shape[2], x.shape[3]))


@pytest.mark.parametrize("by", [1.5, 0.75])
def test_all_traces_of_a_program_have_the_same_forms(by):
    model = Pixels(by)
    dims = ({2: Dim("n", min=6, max=40)},)
    library = ts.compile(model, (torch.randn(1, 4, 12, 10),), dynamic_shapes=dims)
    for extent in (6, 7, 40):
        x = torch.randn(1, 4, extent, 10)
        torch.testing.assert_close(library(x), model(x))


@settings(max_examples=15)
@given(
    extent=st.integers(3, 2**38),
    divisor=st.integers(1, 4096),
    number=st.integers(-(2**20), 2**20),
    rounded=st.sampled_from([math.floor, math.ceil, round]),
)
def test_sums_with_whole_numbers_have_the_value_too(extent, divisor, number, rounded):
    for use in (
        lambda n: rounded((n - 3) / divisor + number),
        lambda n: rounded(number - n / divisor),
        lambda n: rounded(n / divisor + n),
    ):
        form, symbol = _traced(use, 3)
        assert int(form.subs(symbol, extent)) == use(extent)
        assert "IntTrueDiv" not in str(form)


@settings(max_examples=25)
@given(
    extent=st.integers(3, 2**40),
    tenths=st.integers(1, 30),
    rounded=st.sampled_from([math.floor, math.ceil, math.trunc, round]),
)
def test_decimal_fractions_are_whole_where_python_has_them(extent, tenths, rounded):
    form, symbol = _traced(lambda n: rounded(n * (tenths / 10)), 3)
    left = "ToInt" in str(form)  # 0.7 * 90 is below 63
    assert left or int(form.subs(symbol, extent)) == rounded(extent * (tenths / 10))
    assert left == (tenths in LEFT)


def test_decimal_fractions_are_tried_at_all_sizes_of_a_range():
    found = []

    class Model(nn.Module):
        def forward(self, x):
            found.append(str(math.floor(x.shape[0] * 0.7).node.expr))
            return x + 1

    for most in (80, 90):
        with WholeQuotients():
            shapes = ({0: Dim("n", min=3, max=most)},)
            torch.export.export(Model(), (torch.ones(7),), dynamic_shapes=shapes)
    assert "ToInt" not in found[0] and "FloorToInt" in found[1]
    assert math.floor(90 * 0.7) == 62


@pytest.mark.parametrize("use", [lambda n: math.ceil(n / 3 * 3), lambda n: math.ceil(n * 0.7)])
def test_what_is_rounded_more_often_is_left(use):
    assert "CeilToInt" in str(_traced(use, 3)[0])


def test_pytorch_is_as_before():
    before = vars(SymNode).copy()
    with WholeQuotients():
        assert vars(SymNode)["ceil"] is not before["ceil"]
    assert vars(SymNode) == before
