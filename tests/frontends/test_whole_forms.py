"""Forms of quotients, remainders and extremes of extents: their values, and one division."""

from __future__ import annotations

import itertools
import math

import pytest
import sympy
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.export import Dim
from torch.utils._sympy.functions import FloorDiv, Max, Min, PythonMod

import tvm_sparse as ts
from tvm_sparse.frontends.program.one_division import OneDivision
from tvm_sparse.frontends.program.whole_forms import extreme, least, quotient, remainder
from tvm_sparse.frontends.program.whole_quotients import WholeQuotients

H, W = (sympy.Symbol(name, positive=True, integer=True) for name in "hw")
CONFIG = ts.Config(measure=False, cache=False, tuned=False)

NUMBERS = st.integers(1, 9)
LEAVES = st.one_of(st.sampled_from([H, W]), st.integers(-9, 9).map(sympy.Integer))
STEPS = st.recursive(
    LEAVES,
    lambda part: st.one_of(
        st.tuples(st.sampled_from("/%"), part, NUMBERS),
        st.tuples(st.sampled_from(["max", "min"]), part, part),
        st.tuples(st.integers(-4, 4), part, part),
    ),
    max_leaves=6,
)


def form(step):
    """Return the form of a step, as its operators are traced one by one."""
    if not isinstance(step, tuple):
        return step
    name, by, over = step[0], step[2], form(step[1])
    if name == "/":
        return quotient(over, by)
    if name == "%":
        return remainder(over, by, PythonMod(over, by))
    other = form(by)
    if name in ("max", "min"):
        return extreme((Max if name == "max" else Min)(over, other))
    return over + name * other


def value(step, sizes):
    """Return what Python computes."""
    if not isinstance(step, tuple):
        return int(sizes.get(step, step))
    name, by, over = step[0], step[2], value(step[1], sizes)
    if name in ("/", "%"):
        return over // by if name == "/" else over % by
    other = value(by, sizes)
    if name in ("max", "min"):
        return (max if name == "max" else min)(over, other)
    return over + name * other


@settings(max_examples=200)
@given(step=STEPS, h=st.integers(1, 200), w=st.integers(1, 200))
def test_forms_have_the_value_that_python_computes(step, h, w):
    sizes = {H: h, W: w}
    found = sympy.sympify(form(step))
    known = int(found.xreplace({s: sympy.Integer(n) for s, n in sizes.items()}))
    assert known == value(step, sizes)
    assert least(found) <= known


def padded(size, kernel, stride):
    """Return the size that TensorFlow pads ``size`` to, and the size behind its layer."""
    up = -quotient(-size, stride)
    whole = size + extreme(Max(0, (up - 1) * stride + kernel - size))
    return whole, quotient(whole - kernel, stride) + 1


@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (1, 2), (7, 4), (3, 4), (5, 3), (3, 1)])
def test_extents_behind_padded_layers_are_one_division(kernel, stride):
    size = H
    for layers in range(1, 6):
        size = padded(size, kernel, stride)[1]
        assert size == quotient(H + stride**layers - 1, stride**layers)


def test_whole_windows_are_one_division():
    half = quotient(H + remainder(H, 2, PythonMod(H, 2)) + 1, 2)
    missing = remainder(7 - PythonMod(half, 7), 7, PythonMod(7 - PythonMod(half, 7), 7))
    assert half == FloorDiv(H + 1, 2)
    assert sympy.expand(half + missing) == 7 * FloorDiv(H + 13, 14)


def test_multiples_in_front_of_products_stay():
    assert quotient(64 * H * (W + 1), 64) == H * (W + 1)
    assert quotient(6 * H + 5, 4) == FloorDiv(3 * H + 2, 2)


class Same(nn.Module):
    """A layer whose input is padded as TensorFlow pads it, with the arithmetic of its packages."""

    def __init__(self, layer, kernel, stride, value=0.0):
        super().__init__()
        self.layer, self.kernel, self.stride, self.value = layer, kernel, stride, value

    def forward(self, x):
        left = []
        for size in reversed(x.shape[-2:]):
            up = (math.ceil(size / self.stride) - 1) * self.stride
            missing = max(up + self.kernel - size, 0)
            left += [missing // 2, missing - missing // 2]
        return self.layer(F.pad(x, left, value=self.value))


def network():
    """Return layers of exact sums, of which each halves its planes or keeps them."""
    layers, channels = [], 3
    for kernel, stride, features in [(3, 2, 8), (5, 1, 8), (5, 2, 16), (1, 2, 16), (3, 2, 32)]:
        conv = nn.Conv2d(channels, features, kernel, stride, bias=False)
        conv.weight.data = torch.randint(-1, 2, conv.weight.shape).float()
        layers.append(Same(conv, kernel, stride))
        channels = features
    layers.insert(3, Same(nn.MaxPool2d(3, 2), 3, 2, -math.inf))
    return nn.Sequential(*layers).eval()


def test_layers_that_are_padded_as_tensorflow_pads():
    torch.manual_seed(0)
    model = network()
    axes = {0: Dim("n", max=8), 2: Dim("h", min=20, max=300), 3: Dim("w", min=20, max=300)}
    library = ts.compile(model, torch.ones(2, 3, 48, 80), dynamic_shapes=(axes,), config=CONFIG)
    for n, h, w in [(1, 20, 21), (2, 31, 64), (3, 97, 33), (1, 64, 130)]:
        x = torch.randint(-2, 3, (n, 3, h, w)).float()
        assert torch.equal(library(x), model(x))


def test_padded_extents_are_traced_as_one_division():
    x, axes = torch.ones(1, 3, 48, 80), {2: Dim("h", min=40), 3: Dim("w", min=40)}
    with OneDivision(), WholeQuotients():
        program = torch.export.export(network(), (x,), dynamic_shapes=(axes,))
    shapes = (getattr(node.meta.get("val"), "shape", ()) for node in program.graph.nodes)
    extents = {e.node.expr for e in itertools.chain(*shapes) if isinstance(e, torch.SymInt)}
    divisions = {term for extent in extents for term in extent.atoms(FloorDiv)}
    assert divisions
    assert not any(term.args[0].has(FloorDiv, Max) for term in divisions)
