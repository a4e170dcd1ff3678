"""Every network of the benchmark, dense and pruned, against PyTorch in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from benchmarks.networks import Encoder, Recurrent, prune_balanced
from tests.zoo import torchvision_model

QUICK = ["mobilenet_v2", "encoder", "lstm"]
SLOW = ["resnet18", "resnet50", "vgg16", "efficientnet_b0", "densenet121", "vit_b_16", "bilstm"]
BOUND = 2e-5
"""Largest error relative to the largest output: about 100 layers of fp32 rounding."""


def network(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return the network at a reduced input size."""
    torch.manual_seed(0)
    if name == "encoder":
        return Encoder(layers=2, width=96, heads=6), torch.randn(1, 19, 96)
    if name == "lstm":
        return Recurrent(width=80), torch.randn(1, 3, 80)
    if name == "bilstm":
        return nn.LSTM(64, 48, bidirectional=True, batch_first=True), torch.randn(1, 4, 64)
    if name == "vit_b_16":
        return torchvision_model(name, image_size=48), torch.randn(1, 3, 48, 48)
    return torchvision_model(name), torch.randn(1, 3, 64, 64)


@pytest.mark.parametrize("keep", [16, 3])
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)]
)
def test_compiled_network_agrees_with_pytorch(name, keep):
    model, x = network(name)
    model.eval()
    if keep < 16:
        prune_balanced(model, keep)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    got = library(x)
    if isinstance(exact, tuple):
        exact, got = exact[0], got[0]
    error = float((got.double() - exact).abs().max() / exact.abs().max())
    assert error < BOUND
    sparse = [d for d in library.decisions if d.chosen != "dense"]
    assert bool(sparse) == (keep < 16)
    assert all(d.reason for d in library.decisions)
