"""Floats of open programs are those of closed ones bit for bit, where sums have the same order."""

from __future__ import annotations

import pytest
import torch

import tvm_sparse as ts
from tests.opened.case import TILE
from tests.opened.judged import CONFIG, compiled, far
from tests.opened.test_operators import OPERATORS

EXTENTS = (1, TILE - 1, TILE, TILE + 1, 29)

CASES = {
    "linear": ("rows", "length"),
    "linear, pruned": ("rows", "batch", "length"),
    "conv": ("batch", "height", "width"),
    "conv, pruned": ("batch", "width"),
    "conv, strided": ("width",),
    "conv, pointwise": ("width",),
    "conv, depthwise": ("height", "width"),
    "layer norm": ("rows", "length"),
    "group norm": ("batch", "width"),
    "softmax": ("rows", "length"),
    "attention": ("batch", "length"),
    "mean of planes": ("batch", "width"),
    "lstm": ("batch", "length"),
}
"""Operators, and the axes that are open."""

ANOTHER_ORDER = {
    # Planes of one column have no windows for Winograd: the closed layer sums taps.
    ("conv", "height"): {1},
    ("conv", "width"): {1},
    # Rows that are shorter than a vector are summed one by one, in vectors if they are open.
    ("attention", "length"): {TILE - 1},
    # Planes of known extents are summed in vectors, and a rest; open ones row by row.
    ("group norm", "width"): set(EXTENTS),
    ("mean of planes", "width"): set(EXTENTS),
}
"""Where sums have another order, and results an error bound instead."""

QUICK = ("linear, pruned", "length", TILE + 1), ("conv, depthwise", "width", TILE + 1)


def parts() -> list[object]:
    """Return operators, axes and extents: few quick ones."""
    return [
        pytest.param(name, axis, e, marks=[] if (name, axis, e) in QUICK else [pytest.mark.slow])
        for name, axes in CASES.items()
        for axis in axes
        for e in EXTENTS
    ]


@pytest.fixture(scope="module")
def opened():
    """Return what gives an operator with an open axis, and its library, which is compiled once."""
    known = {}

    def find(name, axis):
        if (name, axis) not in known:
            case = OPERATORS[name].case(axis)
            known[name, axis] = case, compiled(case)
        return known[name, axis]

    return find


@pytest.mark.grid
@pytest.mark.parametrize(("name", "axis", "extent"), parts())
def test_floats_are_those_of_the_closed_program(name, axis, extent, opened):
    case, library = opened(name, axis)
    inputs = case.inputs(dict.fromkeys(case.limits, extent), seed=extent)
    found, expected = library(*inputs), ts.compile(case.model, inputs, config=CONFIG)(*inputs)
    if extent in ANOTHER_ORDER.get((name, axis), ()):
        wrong = far(case.model)
        assert not wrong(inputs, found)
        assert not wrong(inputs, expected)
    else:
        assert torch.equal(found, expected)
