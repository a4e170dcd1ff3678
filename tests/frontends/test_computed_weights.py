"""Weights that are a function of others: PyTorch computes them once, and their zeros are found."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune

import tvm_sparse as ts
from tvm_sparse.frontends.program.computed_weights import compute_weights
from tvm_sparse.frontends.quiet import quiet


class Largest(nn.Module):
    """A quarter of the weights, the largest ones."""

    def forward(self, weight):
        least = weight.abs().flatten().topk(weight.numel() // 4).values[-1]
        return weight * (weight.abs() >= least)


class Shrunk(nn.Module):
    def forward(self, weight):
        return torch.sign(weight) * torch.relu(weight.abs() - 0.1)


class LowRank(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Parameter(torch.randn(32, 2)), nn.Parameter(torch.randn(2, 48))

    def forward(self, weight):
        return weight + self.up @ self.down


def _zeros(layer):
    prune.l1_unstructured(layer, "weight", 0.75)
    prune.remove(layer, "weight")


WAYS = {
    "ts.prune": lambda layer: ts.prune.balanced(layer, 0.75),
    "torch.nn.utils.prune": lambda layer: prune.l1_unstructured(layer, "weight", 0.75),
    "weight norm": lambda layer: (_zeros(layer), parametrizations.weight_norm(layer)),
    "spectral norm": lambda layer: (_zeros(layer), parametrizations.spectral_norm(layer)),
    "largest": lambda layer: parametrize.register_parametrization(layer, "weight", Largest()),
    "shrunk": lambda layer: parametrize.register_parametrization(layer, "weight", Shrunk()),
    "orthogonal": parametrizations.orthogonal,
    "low rank": lambda layer: parametrize.register_parametrization(layer, "weight", LowRank()),
}


def _model(way):
    torch.manual_seed(0)
    layer = nn.Linear(48, 32)
    WAYS[way](layer)
    return nn.Sequential(layer, nn.ReLU()).eval(), torch.randn(3, 48)


@pytest.mark.grid
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore:The tensor attribute self.0.weight was assigned")
def test_a_program_has_the_layer_with_its_zeros(way):
    model, x = _model(way)
    with torch.no_grad():
        want, zeros = model(x), (model[0].weight == 0).float().mean().item()
        library = ts.compile(torch.export.export(model, (x,)), config=ts.Config(measure=False))
    (layer,) = library.decisions
    assert layer.layer == "0"
    assert layer.sparsity == pytest.approx(zeros)
    assert layer.chosen != "dense" or zeros < 0.5
    found = library(x)
    found = found if isinstance(found, torch.Tensor) else found[0]
    torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)


def _program(model, x):
    with quiet():
        return torch.export.export(model, (x,)).run_decompositions()


class Convolved(nn.Module):
    """A kernel with a wave's factors, which only PyTorch computes here."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = nn.Parameter(torch.randn(16, 8, 3, 3))

    def forward(self, x):
        kernel = torch.cos(self.kernel)
        return nn.functional.conv2d(x, kernel), kernel.sum(), torch.cos(x)


def test_what_is_read_elsewhere_stays():
    model, x = Convolved(), torch.randn(1, 8, 6, 6)
    program = _program(model, x)
    compute_weights(program)
    assert set(program.state_dict) == {"kernel"}
    x = torch.randn(1, 8, 6, 6)
    for found, want in zip(program.module()(x), model(x), strict=True):
        torch.testing.assert_close(found, want)


class Random(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        noise = torch.rand_like(self.weight)
        return x @ (self.weight + noise), x * torch.cos(self.weight)


def test_noise_and_what_no_product_reads_are_computed_when_it_runs():
    program = _program(Random(), torch.randn(4, 4))
    compute_weights(program)
    assert set(program.state_dict) == {"weight"}
