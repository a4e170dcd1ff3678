"""Networks of halves run on operators of ours, dense and sparse, and round results once."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional

import tvm_sparse as ts
from tvm_sparse.schedules.kernel import GENERIC
from tvm_sparse.selection.decisions import DENSE


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.joined, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (p.unflatten(-1, (2, 16)).transpose(1, 2) for p in self.joined(x).chunk(3, -1))
        found = functional.scaled_dot_product_attention(q, k, v)
        return self.out(found.transpose(1, 2).flatten(2))


class Hyper(nn.Module):
    """A convolution whose weight depends on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(16, 8, 3, 3) / 8)

    def forward(self, x):
        return functional.conv2d(x, self.kernel * x.mean((0, 2, 3))[:, None, None])


def _convolutions():
    layers = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, groups=32)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(32, 32, 3, groups=2), nn.Conv2d(32, 16, 1))


NETWORKS = {
    "linear": (lambda: nn.Sequential(nn.Linear(48, 64), nn.GELU(), nn.Linear(64, 32)), (3, 48)),
    "convolutions": (_convolutions, (1, 16, 9, 8)),
    "transposed": (lambda: nn.ConvTranspose2d(16, 16, 4, 2), (1, 16, 5, 5)),
    "attention": (Attention, (1, 9, 32)),
    "lstm": (lambda: nn.LSTM(16, 16), (3, 1, 16)),
    "weights at run time": (Hyper, (1, 8, 9, 9)),
}
WAYS = [(torch.float16, "cpu"), (torch.bfloat16, "cpu"), (torch.bfloat16, "cpu:haswell")]
"""The last one has no instruction that multiplies halves."""


def _network(name, dtype, sparsity=0.0):
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    model = make().eval()
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    return model.to(dtype), torch.randn(shape).to(dtype)


def _outputs(found):
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.grid
@pytest.mark.parametrize("dtype, target", WAYS, ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_results_are_as_near_as_pytorchs_and_no_product_is_general(name, dtype, target):
    model, x = _network(name, dtype)
    library = ts.compile(model, (x,), target=target, config=ts.Config(measure=False))
    assert not [k for k in library.kernels if k.contraction and (k.rule in {None, *GENERIC})]
    with torch.no_grad():
        exact = _outputs(copy.deepcopy(model).double()(x.double()))
        eager = (_outputs(model(x)).double() - exact).abs().max()
    found = _outputs(library(x))
    assert found.dtype == dtype
    least = torch.finfo(dtype).eps * exact.abs().max()
    assert (found.double() - exact).abs().max() <= 1.5 * max(eager, least)


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_pruned_layers_run_sparse(dtype):
    model, x = _network("linear", dtype, sparsity=0.75)
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    assert all(row.chosen not in DENSE for row in library.decisions)
    if dtype == torch.float16:
        assert "float16, multiplied in float32" in next(iter(library.decisions)).reason


def test_another_precision_is_that_of_the_products():
    model, x = _network("linear", torch.float16)
    config = ts.Config(measure=False, precision="bfloat16")
    library = ts.compile(model, (x,), target="cpu:znver4", config=config)
    assert all("multiplies bfloat16" in row.reason for row in library.decisions)


def test_small_integers_are_exact():
    layer = nn.Linear(64, 32).eval()
    layer.weight.data, layer.bias.data = (
        torch.randint(-2, 3, p.shape).float() for p in (layer.weight, layer.bias)
    )
    x = torch.randint(-2, 3, (5, 64))
    for dtype in (torch.float16, torch.bfloat16):
        library = ts.compile(layer.to(dtype), (x.to(dtype),), config=ts.Config(measure=False))
        assert torch.equal(library(x.to(dtype)), layer.float()(x.float()).to(dtype))
