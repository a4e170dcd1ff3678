"""Networks in double precision: operators of ours, dense and sparse, as exact as PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

import tvm_sparse as ts
from tvm_sparse.selection.decisions import DENSE


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.joined, self.out = nn.Linear(32, 96), nn.Linear(32, 32)

    def forward(self, x):
        q, k, v = (p.unflatten(-1, (2, 16)).transpose(1, 2) for p in self.joined(x).chunk(3, -1))
        found = functional.scaled_dot_product_attention(q, k, v)
        return self.out(found.transpose(1, 2).flatten(2))


def _convolutions():
    layers = [nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, groups=32)]
    return nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(32, 32, 3, groups=2), nn.Conv2d(32, 16, 1))


NETWORKS = {
    "linear": (lambda: nn.Sequential(nn.Linear(48, 64), nn.ReLU(), nn.Linear(64, 32)), (3, 48)),
    "convolutions": (_convolutions, (1, 16, 9, 8)),
    "attention": (Attention, (1, 9, 32)),
    "lstm": (lambda: nn.LSTM(16, 16), (3, 1, 16)),
}


@pytest.mark.grid
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("sparsity", [0.0, 0.875])
def test_networks_of_doubles_are_as_exact_as_doubles_are(name, sparsity):
    torch.manual_seed(0)
    make, shape = NETWORKS[name]
    model, x = make().eval(), torch.randn(shape).double()
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    library = ts.compile(model.double(), (x,), config=ts.Config(measure=False))
    assert all(kernel.ours for kernel in library.kernels)
    if sparsity:
        assert any(row.chosen not in DENSE for row in library.decisions)
    with torch.no_grad():
        found, expected = (y[0] if isinstance(y, tuple) else y for y in (library(x), model(x)))
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13)


FORMATS = ("dense", "balanced", "block", "unstructured")


@pytest.mark.grid
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("target", ["cpu", "cpu:haswell"])
@pytest.mark.parametrize("rows", [3, 33])
def test_formats_keep_what_single_precision_would_lose(format, target, rows):
    if (format, target) == ("balanced", "cpu:haswell"):
        pytest.skip("doubles are not looked up in its registers")
    torch.manual_seed(0)
    layer = nn.Linear(64, 48, bias=False).double().eval()
    layer.weight.data = torch.randint(1, 2**20, (48, 64)).double()
    ts.prune.balanced(nn.Sequential(layer), 0.75).squash_mask()
    x = torch.randint(-(2**20), 2**20, (rows, 64)).double()
    config = ts.Config(measure=False, force={"*": format})
    library = ts.compile(layer, (x,), target=target, config=config)
    (row,) = library.decisions
    assert row.chosen == format
    with torch.no_grad():
        assert torch.equal(library(x), layer(x))


def test_a_depthwise_layer_with_common_taps():
    layer = nn.Conv2d(32, 32, 3, padding=1, groups=32, bias=False).double().eval()
    layer.weight.data = torch.randint(1, 2**20, layer.weight.shape).double()
    layer.weight.data[:, :, 0] = 0
    x = torch.randint(-(2**20), 2**20, (1, 32, 7, 7)).double()
    config = ts.Config(measure=False, force={"*": "depthwise_taps"})
    library = ts.compile(layer, (x,), config=config)
    with torch.no_grad():
        assert torch.equal(library(x), layer(x))
