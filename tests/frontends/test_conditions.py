"""What a model's code decides by its open extents holds in the program, or sizes are refused."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tvm_sparse.report.html import render, render_artifact
from tvm_sparse_runtime import load
from tvm_sparse_runtime.__main__ import main as describe
from tvm_sparse_runtime.errors import SparseRuntimeError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

SIZES = (1, 2, 3, 4, 5, 12, 13)


class Decides(nn.Module):
    """Doubles what ``condition`` holds for, adds one to the rest."""

    def __init__(self, condition):
        super().__init__()
        self.condition = condition

    def forward(self, x):
        if self.condition(x):
            return x * 2
        return x + 1


def _checked(x):
    torch._check(x.shape[0] != x.shape[1], lambda: "no squares")
    return True


CONDITIONS = {
    "one": lambda x: x.shape[1] == 1,
    "one of two": lambda x: 1 in x.shape,
    "more than one": lambda x: x.shape[1] > 1,
    "at most": lambda x: x.shape[1] <= 10,
    "more": lambda x: x.shape[1] > 3,
    "even": lambda x: x.shape[1] % 2 == 0,
    "unlike": lambda x: x.shape[0] == x.shape[1],
    "less": lambda x: x.shape[0] < x.shape[1],
    "elements": lambda x: x.numel() > 100,
    "either": lambda x: x.shape[0] > 4 or x.shape[1] > 4,
    "halves": lambda x: x.shape[1] // 2 == x.shape[0],
    "check": _checked,
}


def _right_or_refused(model, library):
    """Return how many sizes are right; the others have to be refused."""
    right = 0
    for b, t in itertools.product(SIZES, repeat=2):
        x = torch.randn(b, t, 8)
        try:
            found = library(x)
        except SparseRuntimeError:
            continue
        torch.testing.assert_close(torch.as_tensor(found), model(x))
        right += 1
    return right


@pytest.mark.parametrize("name", CONDITIONS)
def test_code_that_asks_for_extents(name):
    model = Decides(CONDITIONS[name]).eval()
    opened = {"x": {0: Dim.AUTO, 1: Dim.AUTO}}
    library = ts.compile(model, torch.randn(3, 4, 8), dynamic_shapes=opened, config=CONFIG)
    assert _right_or_refused(model, library) >= 12


@pytest.mark.parametrize("name", ["one", "unlike", "elements"])
def test_named_extents(name, tmp_path):
    model = Decides(CONDITIONS[name]).eval()
    opened = {"x": {0: Dim("b"), 1: Dim("t")}}
    library = ts.compile(model, torch.randn(3, 4, 8), dynamic_shapes=opened, config=CONFIG)
    count = _right_or_refused(model, library)
    assert _right_or_refused(model, load(library.export(tmp_path / "a.tvms"))) == count >= 12


def test_a_refusal_names_the_line_and_the_extents():
    opened = {"x": {0: Dim("b"), 1: Dim("t")}}
    model = Decides(CONDITIONS["unlike"])
    library = ts.compile(model, torch.randn(3, 4, 8), dynamic_shapes=opened, config=CONFIG)
    expected = r"test_conditions.py, line \d+: traced where x.shape\[0\] != x.shape\[1\]"
    with pytest.raises(SparseRuntimeError, match=expected):
        library(torch.randn(5, 5, 8))


def test_a_branch_that_one_alone_takes(tmp_path, capsys):
    opened = {"x": {1: Dim("t")}}
    model = Decides(CONDITIONS["one"])
    library = ts.compile(model, torch.randn(3, 4, 8), dynamic_shapes=opened, config=CONFIG)
    with pytest.raises(SparseRuntimeError, match="t = at least 2"):
        library(torch.randn(3, 1, 8))
    (told,) = library.ranges
    place = r"\(test_conditions.py, line \d+\)"
    assert re.fullmatch(rf"t is at least 2: other sizes are another model {place}", told)
    assert told in library.verdict()
    path = library.export(tmp_path / "a.tvms")
    assert load(path).ranges == library.ranges
    assert describe([str(path)]) == 0
    assert f"  {told}\n" in capsys.readouterr().out
    assert told in render(library, library.kernels)
    assert told in render_artifact(load(path).manifest, "of an artifact")


def test_a_range_that_an_operator_narrows_is_told():
    opened = {"x": {0: Dim("b"), 1: Dim("t", max=9)}}
    model = ts.load(Squeezed(), (torch.randn(3, 4, 8),), dynamic_shapes=opened)
    assert model.bounds["t"] == (2, 9)
    assert model.ranges == ("t is 2 to 9: other sizes are another model (operator 'squeeze')",)


class Masked(nn.Module):
    def forward(self, x):
        if x.shape[1] > 1:  # of a single token nothing is masked
            x = x.masked_fill(torch.ones(x.shape[1], x.shape[1], dtype=bool).triu(1), -1.0)
        return x * 2


def test_branches_that_give_the_same_take_one():
    opened = {"x": {0: Dim("b"), 1: Dim("t"), 2: Dim("t")}}
    library = ts.compile(Masked(), torch.randn(3, 4, 4), dynamic_shapes=opened, config=CONFIG)
    assert not library.ranges
    for b, t in ((1, 1), (3, 1), (1, 4), (2, 5)):
        x = torch.randn(b, t, t)
        torch.testing.assert_close(torch.as_tensor(library(x)), Masked()(x))


class Squeezed(nn.Module):
    def forward(self, x):
        return x.squeeze(1) + 1


class Viewed(nn.Module):
    def forward(self, x):
        return x.reshape(-1, 16) + 1


@pytest.mark.parametrize(("model", "count"), [(Squeezed(), 42), (Viewed(), 33)])
def test_operators_that_ask_for_extents(model, count):
    opened = {"x": {0: Dim("b"), 1: Dim("t")}}
    library = ts.compile(model, torch.randn(3, 4, 8), dynamic_shapes=opened, config=CONFIG)
    assert _right_or_refused(model, library) == count


def test_an_exported_program_is_refused_where_pytorch_refuses_it():
    model = Decides(CONDITIONS["unlike"])
    opened = {"x": {0: Dim("b"), 1: Dim("t")}}
    program = torch.export.export(model, (torch.randn(3, 4, 8),), dynamic_shapes=opened)
    assert _right_or_refused(model, ts.compile(program, config=CONFIG)) == 42


def test_a_quantised_model_keeps_what_was_asked():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, x):
            return self.linear(x) if x.shape[0] != x.shape[1] else x

    opened = {"x": {0: Dim("b"), 1: Dim("t")}}
    x = torch.randn(3, 4, 16)
    program = ts.quantize(Layer().eval(), [x], dynamic_shapes=opened)
    library = ts.compile(program, config=CONFIG)
    library(x)
    with pytest.raises(SparseRuntimeError, match="traced where"):
        library(torch.randn(4, 4, 16))


def test_a_condition_on_a_multiple_names_its_axis():
    class Decided(nn.Module):
        def forward(self, x):
            return x * 2 if x.shape[1] % 5 == 0 else x

    shapes = ({1: 2 * Dim("n", min=2, max=40) + 1},)
    found = ts.load(Decided(), (torch.rand(3, 15),), dynamic_shapes=shapes)
    assert re.search(r"traced where .*\(\(x.shape\[1\] - 1\) // 2\)", found.ranges[0]), found.ranges
