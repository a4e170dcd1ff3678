"""NaN and infinities in every format, numerics and machine: PyTorch's, or a zero absorbs them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts

SPECIAL = (math.nan, math.inf, -math.inf)
FORMATS = ("dense", "balanced", "joint", "block", "unstructured")
MACHINES = [
    ("cpu", "float32"),
    ("cpu", "bfloat16"),
    ("cpu:haswell", "float32"),
    ("cpu:x86-64", "float32"),
]


def formats(precision: str, columns: int) -> list[str]:
    """Return the formats that layers of so many columns have."""
    if precision == "float32":
        return list(FORMATS)
    return [s for s in FORMATS[:-1] if s != "block" or columns % 2 == 0]


def supports_halves() -> bool:
    """Whether this machine gains by products of bfloat16."""
    return "avx512bf16" in Path("/proc/cpuinfo").read_text().replace("_", "")


class Side(nn.Module):
    """Layers of one input beside each other."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)

    def forward(self, x):
        return {name: layer(x) for name, layer in self.layers.items()}


def small_integers(*shape: int) -> torch.Tensor:
    """Return numbers whose products and sums every type here holds, none of them zero."""
    return torch.randint(1, 4, shape) * (torch.randint(0, 2, shape) * 2.0 - 1)


def prune(layer: nn.Module, density: float, format: str = "") -> nn.Module:
    """Give ``layer`` integer weights and zeros at random: in rows unequally many.

    A block has columns in common, joint zeros leave whole banks out.
    """
    with torch.no_grad():
        rows, *inputs = layer.weight.shape
        share = density * (0.3 + 1.4 * torch.rand(rows, *[1] * len(inputs)))
        kept = torch.rand(rows, *inputs) < share
        if format == "block":
            kept = (torch.rand(-(-rows // 16), *inputs) < density).repeat_interleave(16, 0)[:rows]
        if format == "joint":
            banks = torch.rand(-(-rows // 16), -(-inputs[0] // 16), *inputs[1:]) < 0.6
            kept &= banks.repeat_interleave(16, 0)[:rows].repeat_interleave(16, 1)[:, : inputs[0]]
        layer.weight.copy_(small_integers(rows, *inputs) * kept)
        layer.bias.copy_(small_integers(rows))
    return layer


def with_specials(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` with one special value in most of its rows."""
    rows = x.reshape(-1, x.shape[-1])
    for row, place in enumerate(torch.randint(0, rows.shape[1], (len(rows),)).tolist()):
        if row % 4 < len(SPECIAL):
            rows[row, place] = SPECIAL[row % 4]
    return x


def windows(layer: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what outputs read, (..., groups, 1, columns), and weights (groups, rows, columns)."""
    if isinstance(layer, nn.Linear):
        return x[..., None, None, :].double(), layer.weight[None].double()
    columns = F.unfold(x.double(), layer.kernel_size, padding=layer.padding)
    read = columns.unflatten(1, (layer.groups, -1)).permute(0, 3, 1, 2)[..., None, :]
    weight = layer.weight.double().flatten(1).unflatten(0, (layer.groups, -1))
    return read, weight


def wrong_places(layer: nn.Module, x: torch.Tensor, found: torch.Tensor) -> int:
    """Return how many outputs are not PyTorch's, nor what they are if zeros absorb."""
    read, weight = windows(layer, x)
    terms = read * weight
    bias = layer.bias.double().unflatten(0, weight.shape[:2])
    exact = (terms.sum(-1) + bias).flatten(-2)
    absorbed = (terms.masked_fill(weight == 0, 0).sum(-1) + bias).flatten(-2)
    got = found.double() if found.dim() == exact.dim() else found.double().flatten(2).mT

    def equal(a, b):
        return (a == b) | (a.isnan() & b.isnan())

    free = exact.isnan() & ~absorbed.isnan()
    right = equal(got, exact) | (free & equal(got, absorbed))
    return int((~right).sum())


def check(layers, x, target="cpu", precision="float32", force=None):
    model = Side(layers).eval()
    if precision == "bfloat16" and not supports_halves():
        pytest.skip("this CPU multiplies no bfloat16")
    config = ts.Config(
        measure=False,
        cache=False,
        precision=precision,
        force={f"layers.{name}": kind for name, kind in (force or {}).items()},
    )
    library = ts.compile(model, (x,), target=target, config=config)
    if force:
        chosen = {d.layer.removeprefix("layers."): d.chosen for d in library.decisions}
        assert chosen == force
    x = with_specials(x)
    wrong = {name: wrong_places(layer, x, library(x)[name]) for name, layer in layers.items()}
    assert {name: count for name, count in wrong.items() if count} == {}


@pytest.mark.grid
@pytest.mark.parametrize("rows, columns, density", [(24, 64, 0.3), (8, 37, 0.4), (8, 52, 0.97)])
@pytest.mark.parametrize("target, precision", MACHINES)
def test_linear_layers(target, precision, rows, columns, density):
    torch.manual_seed(columns)
    names = formats(precision, columns)
    if density > 0.9:
        names.remove("joint")
    layers = {s: prune(nn.Linear(columns, 40), density, s) for s in names}
    check(layers, small_integers(rows, columns), target, precision, {s: s for s in names})


@pytest.mark.grid
@pytest.mark.parametrize("target, precision", MACHINES)
def test_convolutions(target, precision):
    torch.manual_seed(3)
    names = formats(precision, 32)
    layers = {s: prune(nn.Conv2d(32, 24, 3, padding=1), 0.4, s) for s in names}
    check(layers, small_integers(2, 32, 9, 7), target, precision, {s: s for s in names})


@pytest.mark.grid
@pytest.mark.parametrize("target, precision", MACHINES)
def test_groups_of_few_channels_stay_apart(target, precision):
    torch.manual_seed(4)
    x = small_integers(2, 48, 9, 7)
    layers = {
        "many": prune(nn.Conv2d(48, 48, 3, groups=16), 1.0),
        "few": prune(nn.Conv2d(48, 48, 3, groups=6, padding=1), 1.0),
        "odd": prune(nn.Conv2d(48, 9, 1, groups=3), 1.0),
        "pruned": prune(nn.Conv2d(48, 96, 3, groups=12), 0.3),
    }
    check(layers, x, target, precision)


@pytest.mark.grid
@pytest.mark.parametrize("format", FORMATS)
def test_groups_stay_apart_in_every_format(format):
    torch.manual_seed(5)
    x = small_integers(2, 48, 9, 7)
    layers = {
        "few": prune(nn.Conv2d(48, 48, 3, groups=6, padding=1), 0.5, format),
        "all": prune(nn.Conv2d(48, 48, 3, groups=16), 0.7, format),
    }
    check(layers, x, force=dict.fromkeys(layers, format))


def test_winograd_keeps_what_is_not_finite_in_its_windows():
    torch.manual_seed(6)
    layer = prune(nn.Conv2d(16, 16, 3), 1.0)
    config = ts.Config(measure=False, cache=False, force={"*": "winograd"})
    x = small_integers(1, 16, 10, 10)
    library = ts.compile(nn.Sequential(layer), (x,), config=config)
    assert [d.chosen for d in library.decisions] == ["winograd"]
    x[0, 3, 4, 5] = math.inf
    found, expected = library(x), layer(x)
    assert torch.equal(found.isfinite(), expected.isfinite())
    torch.testing.assert_close(found[expected.isfinite()], expected[expected.isfinite()])
