"""UnfoldLines: what a convolution of few columns writes channels first, it writes once."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

NARROW = {
    "one channel": (nn.Conv1d(1, 40, 10, 5), (1, 1, 200)),
    "borders": (nn.Sequential(nn.Conv1d(2, 33, 5, 1, 3, 2), nn.GELU()), (3, 2, 50)),
    "one border": (nn.Sequential(nn.ConstantPad1d((3, 0), 0.0), nn.Conv1d(1, 16, 4)), (2, 1, 40)),
    "no bias": (nn.Conv1d(3, 16, 2, 3, bias=False), (1, 3, 64)),
    "one tap": (nn.Conv1d(16, 40, 1), (2, 16, 77)),
    "a factor": (nn.Sequential(nn.Conv1d(1, 20, 4), nn.BatchNorm1d(20), nn.Tanh()), (1, 1, 60)),
}
OTHERS = {
    "many columns": (nn.Conv1d(16, 40, 3), (1, 16, 77)),
    "groups": (nn.Conv1d(2, 32, 3, groups=2), (1, 2, 77)),
    "few features": (nn.Conv1d(1, 8, 3), (1, 1, 77)),
    "channels last behind it": (
        nn.Sequential(nn.Conv1d(1, 32, 3), nn.ReLU(), nn.Conv1d(32, 32, 3)),
        (1, 1, 77),
    ),
}


def compiled(module, shape):
    """Return the names of the kernels, after comparing the result with PyTorch's."""
    module, x = module.eval(), torch.randn(shape, generator=torch.Generator().manual_seed(0))
    library = ts.compile(module, (x,), config=ts.Config(measure=False, tuned=False))
    torch.testing.assert_close(library(x), module(x), rtol=2e-5, atol=2e-6)
    return " ".join(kernel.function for kernel in library.kernels)


@pytest.mark.grid
@pytest.mark.parametrize("name", NARROW)
def test_results_are_written_channels_first_at_once(name):
    kernels = compiled(*NARROW[name])
    assert "matmul" in kernels
    assert "permute" not in kernels


@pytest.mark.grid
@pytest.mark.parametrize("name", OTHERS)
def test_other_convolutions_stay(name):
    assert "matmul" not in compiled(*OTHERS[name])


def test_features_that_are_zero_stay_where_they_are_results():
    layer = nn.Conv1d(1, 32, 4)
    with torch.no_grad():
        layer.weight[::2] = 0
    assert "matmul" in compiled(layer, (1, 1, 60))


def test_a_large_batch_goes_through_in_parts():
    kernels = compiled(nn.Sequential(nn.Conv1d(1, 256, 4), nn.MaxPool1d(8)), (4, 1, 2000))
    assert "take_part" in kernels
    assert "matmul" in kernels
