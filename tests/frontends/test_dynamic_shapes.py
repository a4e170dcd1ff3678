"""Dynamic shapes are checked against the arguments before they are exported."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tvm_sparse.errors import InputError

X = torch.zeros(4, 64)
ROWS = Dim("rows", max=16)


class Scaled(nn.Module):
    def forward(self, x, *, scale=1.0, parts=None):
        return x * scale


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        (({0: "rows"},), r"of 'x': has the text 'rows' for axis 0; .*torch.export.Dim\('rows'\)"),
        (("rows",), "of 'x': is 'rows'; expected a mapping of axes"),
        ((ROWS,), "of 'x': is .*; expected a mapping of axes"),
        (({5: ROWS},), "of 'x': has an axis 5; expected one of a tensor of 2"),
        (({"rows": ROWS},), "of 'x': has an axis 'rows'"),
        (({0: 1.5},), "of 'x': has a float for axis 0"),
        (({0: Dim("rows", min=8, max=16)},), "says 8 to 16 for axis 0, which is 4 in the example"),
        (({0: ROWS}, None), r"has 2 entries for 1 arguments \(x\)"),
        ({"y": {0: ROWS}}, "'y' is no argument of the example inputs; .*among x"),
        ({"x": None, "scale": {0: ROWS}}, "'scale' is no argument of the example inputs"),
    ],
)
def test_each_sort_of_fault_has_its_sentence(shapes, told):
    with pytest.raises(InputError, match=f"dynamic_shapes.*{told}|dynamic_shapes {told}"):
        ts.load(Scaled(), (X,), dynamic_shapes=shapes)


@pytest.mark.parametrize(
    ("parts", "shapes", "told"),
    [
        ([X, X], [{0: ROWS}], "of 'parts': has 1 entries for 2"),
        ([X, X], {0: ROWS}, "of 'parts': is a mapping, and the argument is a list of 2"),
        ({"a": X}, [{0: ROWS}], "of 'parts': is a list, and the argument is a dict of 1"),
        ({"a": X}, {"b": {0: ROWS}}, "of 'parts': has the keys 'b'; expected 'a'"),
        ({"a": X}, {"a": (ROWS,)}, "of 'parts.a': has 1 entries for a tensor of 2 axes"),
    ],
)
def test_containers_are_those_of_the_example(parts, shapes, told):
    with pytest.raises(InputError, match=f"dynamic_shapes {told}"):
        ts.load(Scaled(), (X,), {"parts": parts}, dynamic_shapes={"x": None, "parts": shapes})


def test_a_constant_has_no_open_extent():
    with pytest.raises(InputError, match=r"of 'scale': is set, and 2\.0 is no tensor"):
        shapes = {"x": None, "scale": {0: ROWS}}
        ts.load(Scaled(), (X,), {"scale": 2.0}, dynamic_shapes=shapes)


@pytest.mark.grid
@pytest.mark.parametrize(
    "shapes", [{"x": {0: ROWS}, "scale": None}, {"x": {0: ROWS}}, ({0: ROWS},)]
)
def test_arguments_that_are_left_out_may_be_mentioned(shapes):
    assert ts.load(Scaled(), (X,), dynamic_shapes=shapes).inputs[0].shape == ("rows", 64)


class Joined(nn.Module):
    def forward(self, x, *parts, more):
        return torch.cat([x, *parts, *more["of"]], 1)


def test_extents_of_tensors_in_containers_keep_their_names():
    """Those of a star argument, of a list and of a mapping, too."""
    batch, rows, steps = Dim("batch", max=9), Dim("rows", max=8), 2 * Dim("steps", max=8)
    shapes = {
        "x": {0: batch},
        "parts": ({0: batch, -2: rows}, {-3: batch, 1: rows}),
        "more": {"of": [{0: batch, 1: steps}]},
    }
    args = torch.rand(2, 3, 4), torch.rand(2, 5, 4), torch.rand(2, 5, 4)
    more = {"more": {"of": [torch.rand(2, 6, 4)]}}
    model = ts.load(Joined(), args, more, dynamic_shapes=shapes)
    assert set(model.bounds) == {"batch", "rows", "steps"}


def test_axes_that_are_counted_from_the_last_one():
    found = ts.load(Scaled(), (X,), dynamic_shapes=({-2: Dim("n", min=1), -1: Dim("m", min=1)},))
    assert found.bounds == {"n": (1, None), "m": (1, None)}
