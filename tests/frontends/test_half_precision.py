"""Half precision rounds once: as near to the exact result as PyTorch's."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import tvm_sparse as ts
from tvm_sparse_runtime import load

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

FUNCTIONS = {
    "tanh": torch.tanh,
    "gelu": functional.gelu,
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean((0, 1)),
    "variance": lambda x: x.var(-1),
    "norm": lambda x: x.norm(dim=-1),
    "running sum": lambda x: x.cumsum(-1),
    "power": lambda x: x.abs() ** 0.7,
}


class Each(nn.Module):
    def forward(self, x):
        return tuple(function(x) for function in FUNCTIONS.values())


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_functions_and_sums_are_those_of_single_precision(dtype):
    x = torch.cat([torch.randn(2, 500), torch.randn(2, 500) * 1e-3], 1).to(dtype)
    outputs = ts.compile(Each(), (x,), config=CONFIG)(x)
    place = torch.finfo(dtype).eps
    for name, found, exact in zip(FUNCTIONS, outputs, Each()(x.double()), strict=True):
        assert found.dtype == dtype
        wrong = (found.double() - exact).abs() > place * exact.abs() + 1e-6
        assert not wrong.any(), name


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_layers_of_halves_run_here_and_from_an_artifact(dtype, tmp_path):
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 16)).to(dtype).eval()
    x = torch.randn(4, 32).to(dtype)
    library = ts.compile(model, (x,), config=CONFIG)
    library.export(tmp_path / "halves.tvms")
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
    bound = 4 * torch.finfo(dtype).eps * exact.abs().max()
    for found in (library(x), load(tmp_path / "halves.tvms")(x)):
        assert found.dtype == dtype
        assert (found.double() - exact).abs().max() <= bound


class Extremes(nn.Module):
    def forward(self, x):
        return x.argmax(1), x.argmin(-1, keepdim=True), x.argmax(), nn.functional.group_norm(x, 2)


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_places_and_norms_of_groups_are_those_of_eager(dtype):
    x = (torch.randn(3, 8, 7, 5, generator=torch.Generator().manual_seed(0)) * 2).to(dtype)
    x[0, 2, 3, 4] = float("nan")
    for found, exact in zip(
        ts.compile(Extremes(), (x,), config=CONFIG)(x), Extremes()(x), strict=True
    ):
        assert found.dtype == exact.dtype
        torch.testing.assert_close(
            found, exact, rtol=torch.finfo(dtype).eps, atol=0, equal_nan=True
        )
