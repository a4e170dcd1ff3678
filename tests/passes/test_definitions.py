"""Operators at NaN, infinities and signed zeros give what PyTorch gives, fused or not."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts
from tests.edges import with_edges, wrong
from tests.parts import parts

NAN, INF = math.nan, math.inf

ACTIVATIONS = {
    name: lambda x, y, f=getattr(F, name): f(x)
    for name in (
        *("relu", "relu6", "elu", "selu", "celu", "hardtanh", "hardswish", "hardsigmoid"),
        *("leaky_relu", "silu", "mish", "softplus", "logsigmoid", "softsign", "tanhshrink"),
        *("softshrink", "hardshrink"),
    )
}
EXTREMA = {
    "hardtanh bounds": lambda x, y: F.hardtanh(x, -2.0, 3.0),
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "clamp min": lambda x, y: x.clamp(min=0.2),
    "clamp max": lambda x, y: torch.clamp_max(x, 0.2),
    "clamp tensors": lambda x, y: torch.clamp(x, y, y + 1),
    "clamp nan": lambda x, y: torch.clamp(x, min=NAN),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "fmax": torch.fmax,
    "fmin": torch.fmin,
    "amax": lambda x, y: x.amax(-1),
    "amax outer": lambda x, y: x.amax((0, 1), keepdim=True),
    "amin": lambda x, y: x.amin(1),
    "max": lambda x, y: x.max(),
    "min of infinities": lambda x, y: torch.where(x > 0, INF, INF).min(),
    "max along": lambda x, y: x.max(-1).values,
    "max place": lambda x, y: x.max(1).indices,
    "min along": lambda x, y: x.min(0, keepdim=True).values,
    "min place": lambda x, y: x.min(-1).indices,
    "argmax": lambda x, y: x.argmax(1),
    "argmax of all": lambda x, y: x.argmax(),
    "argmax of equal": lambda x, y: (x > 1).float().argmax(-1),
    "argmin": lambda x, y: x.argmin(-1, keepdim=True),
    "max_pool1d": lambda x, y: F.max_pool1d(x, 3, 2, 1),
    "max_pool2d": lambda x, y: F.max_pool2d(x, 3, 2, 1),
    "max_pool2d ceil": lambda x, y: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "max_pool2d dilated": lambda x, y: F.max_pool2d(x, 2, (1, 3), dilation=2),
    "max_pool2d infinite": lambda x, y: F.max_pool2d(torch.where(x > 0, -INF, x), 3, 1, 1),
    "max_pool3d": lambda x, y: F.max_pool3d(x[None], 2, 1, 1),
    "max_pool3d padded": lambda x, y: F.max_pool3d(x[None], 3, 2, 1),
    "softmax": lambda x, y: x.softmax(-1),
    "softmax outer": lambda x, y: x.softmax(1),
    "log_softmax": lambda x, y: x.log_softmax(-1),
}
ARITHMETIC = {
    "x != x": lambda x, y: x != x,
    "x == x": lambda x, y: x == x,
    "x != y": lambda x, y: x != y,
    "isnan": lambda x, y: x.isnan(),
    "isinf": lambda x, y: x.isinf(),
    "isfinite": lambda x, y: x.isfinite(),
    "nan_to_num": lambda x, y: torch.nan_to_num(x, 1.0, 2.0, 3.0),
    "0 * x": lambda x, y: 0 * x,
    "zeros * x": lambda x, y: torch.zeros_like(x) * x,
    "0 / x": lambda x, y: 0 / x,
    "x / 0": lambda x, y: x / 0,
    "x - x": lambda x, y: x - x,
    "x + y - y": lambda x, y: (x + y) - y,
    "x + 2^24 - 2^24": lambda x, y: (x + 2.0**24) - 2.0**24,
    "2 x - 2 x": lambda x, y: (x * 2) - (x * 2),
    "not <": lambda x, y: ~(x < y),
    "logical_not <": lambda x, y: torch.logical_not(x < 0),
    "not == 0": lambda x, y: torch.logical_not(x),
    "< or >=": lambda x, y: torch.logical_or(x < 0, x >= 0),
    "< xor <=": lambda x, y: torch.logical_xor(x < 0, x >= 0),
    "< and not <": lambda x, y: torch.logical_and(x < 0, ~(x < 0)),
    "(<) != True": lambda x, y: (x < 0) != True,  # noqa: E712
    "(<) < (<)": lambda x, y: (x < 0) < (y < 0),
    "booleans": lambda x, y: ((x < 0) * (y < 0)) + torch.maximum(x < 1, y < 1),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "fmod": lambda x, y: torch.fmod(x, 2.0),
    "remainder": lambda x, y: torch.remainder(x, -2.0),
    "remainder by": lambda x, y: torch.remainder(x, y.round()),
    "floor division": lambda x, y: x // 0.1,
    "floor division by": torch.floor_divide,
    "truncated division": lambda x, y: torch.div(x, 2, rounding_mode="trunc"),
    "sqrt": lambda x, y: x.sqrt(),
    "root": lambda x, y: x**0.5,
    "powers": lambda x, y: x**2 + x**0 + x**-1,
    "round": lambda x, y: x.round(),
    "sign": lambda x, y: x.sign(),
    "sums": lambda x, y: x.sum(-1),
}


FAMILIES = {"activations": ACTIVATIONS, "extrema": EXTREMA, "arithmetic": ARITHMETIC}
PARTS = parts(FAMILIES, 6)


@pytest.mark.grid
@pytest.mark.parametrize("part", PARTS)
def test_values_at_the_edges_are_those_of_pytorch(part):
    assert wrong(PARTS[part], with_edges(2, 8, 16), with_edges(2, 8, 16)) == {}


@pytest.mark.grid
@pytest.mark.parametrize("part", [part for part in PARTS if part.startswith("extrema")])
def test_extrema_at_the_edges_with_avx2(part):
    inputs = with_edges(2, 8, 16), with_edges(2, 8, 16)
    assert wrong(PARTS[part], *inputs, target="cpu:haswell") == {}


FUSED = {
    "relu": F.relu,
    "relu6": F.relu6,
    "elu": F.elu,
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "is nan": lambda x: (x != x).float(),
    "x - x": lambda x: x - x,
    "0 * x": lambda x: 0 * x,
    "maximum": lambda x: torch.maximum(x, 1 - x),
}


class Layers(nn.Module):
    """Every function behind a layer of its own; each row of a weight ends with zeros."""

    def __init__(self, layer: Callable[[], nn.Module], kept: float, functions) -> None:
        super().__init__()
        self.functions = dict(functions)
        self.layers = nn.ModuleList(layer() for _ in functions)
        for made in self.layers:
            rows = made.weight.detach().flatten(1)
            rows[:, int(kept * rows.shape[1]) :] = 0

    def forward(self, x):
        pairs = zip(self.functions.items(), self.layers, strict=True)
        return {name: function(layer(x)) for (name, function), layer in pairs}


LAYERS = {
    "convolution": (lambda: nn.Conv2d(16, 32, 3, padding=1), (1, 16, 6, 5)),
    "depthwise": (lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16), (1, 16, 6, 5)),
    "linear": (lambda: nn.Linear(64, 32), (3, 2, 64)),
}


@pytest.mark.grid
@pytest.mark.parametrize(
    ("layer", "kept"),
    [("convolution", 1), ("convolution", 0.25), ("depthwise", 1), ("linear", 1), ("linear", 0.25)],
)
def test_nan_survives_what_is_fused_behind_a_layer(layer, kept):
    make, shape = LAYERS[layer]
    model, x = Layers(make, kept, FUSED).eval(), torch.randn(shape)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    x[0, 0, 3] = NAN
    with torch.no_grad():
        expected = model(x)
    torch.testing.assert_close(library(x), expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def instructions(library: ts.Library, pattern: str) -> list[str]:
    modules, found = [library.executable.mod], []
    while modules:
        module = modules.pop()
        modules += list(module.imports)
        if module.kind == "llvm":
            found += re.findall(rf"\s({pattern})\s", module.inspect_source("asm"))
    return found


@pytest.mark.optimised
def test_clamps_behind_a_layer_are_two_instructions_a_vector_and_relu_is_one():
    x = torch.randn(1, 32, 8, 8)
    for function, wanted in ((F.relu, {"vmaxps"}), (F.relu6, {"vmaxps", "vminps"})):
        model = Layers(lambda: nn.Conv2d(32, 32, 1, bias=False), 1, {"": function}).eval()
        config = ts.Config(measure=False)
        library = ts.compile(model, (x,), target="cpu:skylake-avx512", config=config)
        found = instructions(library, r"v(?:max|min|cmp|and|blend|ucomi)\w*")
        assert set(found) == wanted
        assert len({found.count(name) for name in wanted}) == 1
