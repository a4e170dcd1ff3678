"""Operators of float64 compute in float64: far nearer to PyTorch than float32 could be."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts
from tests.frontends import families, operators
from tests.frontends.operators import Uses
from tests.parts import family, parts
from tvm_sparse.errors import UnsupportedError

CONFIG = ts.Config(sparse=False, measure=False, cache=False, tuned=False)
BOUND = 1e-13
"""Of the largest value; float32 gives 1e-7."""
NEAR = {"gamma": 1e-11, "trigamma": 1e-9, "polygamma": 1e-9, "bessel i": 1e-11}
"""Special functions that are less exact."""
REFUSED = {"erfc", "erfinv", "bessel j", "bessel y", "bessel k"}
OTHERWISE = {"bag with weights"}
"""In float64 PyTorch adds the indices behind the last offset to the last bag."""

FAMILIES = {
    "corrected": (operators.CORRECTED, (2, 5, 5)),
    "unary": (operators.UNARY, (2, 5, 5)),
    "reductions": (operators.REDUCTIONS, (2, 5, 5)),
    "arithmetic": (operators.ARITHMETIC, (2, 5, 5)),
    "planes": (operators.PLANES, (2, 4, 6, 6)),
    **{
        f"family {name}": (uses, families.SHAPES[name])
        for name, uses in families.FAMILIES.items()
        if name != "scatters"
    },
}
PARTS = parts({name: uses for name, (uses, _) in FAMILIES.items()}, 10)
LAYERS = {
    "linear": (nn.Linear(20, 30), (4, 20)),
    "convolution": (nn.Conv2d(4, 8, 3, padding=1), (1, 4, 9, 9)),
    "depthwise": (nn.Conv2d(16, 16, 3, groups=16), (1, 16, 9, 9)),
    "groups": (nn.Conv2d(8, 8, 3, groups=2), (1, 8, 9, 9)),
    "layer norm": (nn.LayerNorm(64), (4, 64)),
    "layer norm of planes": (nn.LayerNorm((16, 16)), (4, 16, 16)),
    "group norm": (nn.GroupNorm(2, 8), (2, 8, 7, 7)),
    "instance norm": (nn.InstanceNorm2d(8, affine=True), (2, 8, 7, 7)),
    "batch norm": (nn.BatchNorm2d(8), (2, 8, 7, 7)),
    "softmax": (nn.Softmax(-1), (4, 100)),
    "LSTM": (nn.LSTM(8, 16, batch_first=True), (2, 5, 8)),
    "GRU": (nn.GRU(8, 16, batch_first=True), (2, 5, 8)),
    "encoder": (nn.TransformerEncoderLayer(32, 4, 64, activation=F.gelu), (2, 10, 32)),
    "pool": (nn.Sequential(nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(3)), (1, 4, 19, 19)),
    "bilinear": (nn.Upsample(scale_factor=1.7, mode="bilinear"), (1, 4, 9, 9)),
    "bicubic": (nn.Upsample(scale_factor=1.7, mode="bicubic"), (1, 4, 9, 9)),
}


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """Return the largest difference of finite values, relative to the largest of them."""
    assert torch.equal(found.isnan(), exact.isnan())
    finite = exact.isfinite()
    if not finite.any():
        return 0.0
    return float((found - exact)[finite].abs().max() / exact[finite].abs().max().clamp(1e-300))


def doubles(uses: dict[str, operators.Use], x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the results of ``uses`` that PyTorch has for ``x`` in float64."""
    results = {}
    for name, use in uses.items():
        if name in REFUSED | OTHERWISE:
            continue
        try:
            results[name] = use(x)
        except RuntimeError:  # it mixes types
            continue
    return {name: y for name, y in results.items() if y.dtype == torch.float64}


@pytest.mark.grid
@pytest.mark.parametrize("part", PARTS)
def test_operators(part):
    uses, (_, shape) = PARTS[part], FAMILIES[family(part)]
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    exact = doubles(uses, x)
    library = ts.compile(Uses({name: uses[name] for name in exact}), (x,), config=CONFIG)
    errors = {name: error(y, exact[name]) for name, y in library(x).items()}
    assert {name: e for name, e in errors.items() if e > NEAR.get(name, BOUND)} == {}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_is_only_as_exact_as_float32_is_refused(name):
    use = Uses({name: families.NUMBERS[name]})
    with pytest.raises(UnsupportedError, match="of float64 would have the accuracy of float32"):
        ts.load(use, (torch.randn(3, dtype=torch.float64),))


@pytest.mark.grid
@pytest.mark.parametrize("layer", LAYERS)
def test_layers(layer):
    module, shape = LAYERS[layer]
    module = module.double().eval()
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64)
    found, exact = ts.compile(module, (x,), config=CONFIG)(x), module(x)
    found, exact = (y[0] if isinstance(y, tuple) else y for y in (found, exact))
    assert error(found, exact.detach()) <= BOUND
