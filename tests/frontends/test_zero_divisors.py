"""Whole numbers are not divided by constants that hold a zero; floating-point numbers are."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.load import load

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


class Layer(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("held", torch.tensor([3, 0, -1, 2]))

    def forward(self, x):
        return self.function(x, self.held)


X = torch.tensor([5, -7, 0, 3])

NUMBERS = {
    "floor": lambda x, held: x // 0,
    "in place": lambda x, held: x.clone().floor_divide_(0),
    "cut": lambda x, held: torch.div(x, 0, rounding_mode="trunc"),
    "remainder": lambda x, held: x % 0,
    "fmod": lambda x, held: torch.fmod(x, 0),
    "bytes": lambda x, held: x.to(torch.uint8) // 0,
    "zeros": lambda x, held: x // torch.zeros_like(x),
    "filled": lambda x, held: x % torch.full_like(x, 0).reshape(2, -1).flatten(),
    "joined": lambda x, held: x // torch.cat([x[:2], torch.zeros_like(x[2:])]),
    "a weight": lambda x, held: x.float() @ (torch.arange(8) // torch.tensor(0)).view(4, 2).float(),
}

HELD = {
    "buffer": lambda x, held: x // held,
    "by axis": lambda x, held: x % held[:, None],
    "literal": lambda x, held: torch.fmod(x, torch.tensor([1, 0, 2, 3])),
    "computed": lambda x, held: x // (torch.arange(4) - 2),
    "of both": lambda x, held: x + held // (held - 2),
}


@pytest.mark.grid
@pytest.mark.parametrize(
    ("function", "found"),
    [
        *(pytest.param(f, "zero", id=name) for name, f in NUMBERS.items()),
        *(
            pytest.param(f, "a constant with zeros (1 of 4 elements)", id=name)
            for name, f in HELD.items()
        ),
    ],
)
def test_constant_zeros_are_refused(function, found):
    """They are what PyTorch raises an error of, whatever the input is."""
    layer = Layer(function)
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        layer(X)
    wanted = rf"layer '0': operator 'torch\.\w+' divides whole numbers by {re.escape(found)};"
    with pytest.raises(InputError, match=wanted):
        load(nn.Sequential(layer), X)


def test_zeros_of_open_shapes_are_refused():
    def function(x, held):
        return x // torch.zeros_like(x)

    with pytest.raises(InputError, match="divides whole numbers by zero"):
        load(nn.Sequential(Layer(function)), X, dynamic_batch=True)


@pytest.mark.grid
@pytest.mark.parametrize(
    "function",
    [
        lambda x, held: x / 0,
        lambda x, held: x.float() // 0,
        lambda x, held: x.float() % held,
        lambda x, held: torch.fmod(x, 0.0),
        lambda x, held: x // held[2:].repeat(2),
        lambda x, held: x[:0] // 0,
    ],
)
def test_divisions_without_error_are_kept(function):
    layer = Layer(function)
    found = ts.compile(layer, (X,), config=CONFIG)(X)
    torch.testing.assert_close(found, layer(X), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("divisors", [np.array(0), np.array([2, 0, 1, 1])], ids=["one", "some"])
@pytest.mark.parametrize("fmod", [None, 0, 1])
def test_nodes_of_onnx_are_refused_by_name(fmod, divisors, tmp_path):
    options = {} if fmod is None else {"fmod": fmod}
    operator = "Div" if fmod is None else "Mod"
    nodes = [node("Cast", "x", "whole", to=7), node(operator, "whole k", "y", **options)]
    onnx.save(graph(nodes, {"x": [4]}, ["y"], {"k": divisors}), tmp_path / "model.onnx")
    with pytest.raises(InputError, match=r"'y': operator .* divides whole numbers by"):
        load(tmp_path / "model.onnx")


@pytest.mark.grid
@pytest.mark.parametrize("operator", ["Div", "Mod"])
@pytest.mark.parametrize("dividend", ["k", "extents"])
def test_arithmetic_on_shapes_is_refused_by_name(operator, dividend, tmp_path):
    nodes = [
        node("Shape", "x", "extents"),
        node(operator, f"{dividend} k", "i"),
        node("Cast", "i", "f", to=1),
        node("Add", "x f", "y"),
    ]
    made = graph(nodes, {"x": ["n", 2]}, ["y"], {"k": np.array([2, 0])})
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(InputError, match=rf"node 'i': operator '{operator}': divides whole"):
        load(tmp_path / "model.onnx")
