"""Every network of the benchmark, dense and pruned, against PyTorch in float64."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from benchmarks.cases.networks import (
    DEPRUNE,
    NETWORKS,
    Bidirectional,
    Encoder,
    Recurrent,
    prune_balanced,
    prune_deprune,
    with_random_head,
)
from tests.zoo import torchvision_model
from tvm_sparse.selection.decisions import DENSE

QUICK = ("bert_base", "lstm_ptb", "ctc_timit")
BOUND = 2e-5
"""Largest error relative to the largest output: about 100 layers of fp32 rounding."""


def reduced(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return the network at a reduced input size, or with fewer layers."""
    torch.manual_seed(0)
    if name == "bert_base":
        return Encoder(layers=2, width=96, heads=6), torch.randn(1, 19, 96)
    if name == "minilm":
        return Encoder(layers=3, width=96), torch.randn(1, 11, 96)
    if name.startswith("lstm_ptb"):
        return Recurrent(width=80), torch.randn(1, 35 if name.endswith("35") else 1, 80)
    if name == "ctc_timit":
        return Bidirectional(width=48), torch.randn(1, 6, 40)
    if name == "vit_b_16":
        model = torchvision_model(name, image_size=48)
        return with_random_head(model), torch.randn(1, 3, 48, 48)
    return torchvision_model(name), torch.randn(1, 3, 64, 64)


def compile_and_compare(model: nn.Module, x: torch.Tensor) -> ts.compiler.Library:
    """Compile by the cost model; the output must be PyTorch's up to rounding."""
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
    assert exact.abs().max() > 0, "an output of zeros shows nothing"
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    error = float((library(x).double() - exact).abs().max() / exact.abs().max())
    assert error < BOUND
    assert all(d.reason for d in library.decisions)
    return library


@pytest.mark.grid
@pytest.mark.parametrize("keep", [16, 3])
@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NETWORKS],
)
def test_compiled_network_agrees_with_pytorch(name, keep):
    model, x = reduced(name)
    model.eval()
    if keep < 16:
        prune_balanced(model, keep)
    library = compile_and_compare(model, x)
    sparse = [d for d in library.decisions if d.chosen not in DENSE]
    assert bool(sparse) == (keep < 16)


@pytest.mark.slow
@pytest.mark.parametrize("name", DEPRUNE)
def test_depruned_network_agrees_with_pytorch(name):
    model, x = reduced(name)
    model.eval()
    prune_deprune(model, name)
    library = compile_and_compare(model, x)
    assert any("removed" in d.reason for d in library.decisions)
