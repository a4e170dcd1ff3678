"""Convolutions of open planes run in operators of ours, and are right at every extent."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SIZES = [(1, 7, 7), (2, 7, 8), (1, 8, 9), (3, 13, 17), (1, 23, 31), (2, 40, 33)]
"""Batch, height and width: fewer than a tile has, a tile, one more, primes."""

NETWORKS = {
    "dense": (nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 8, 1)), 0.0),
    "sparse": (
        nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1)),
        0.75,
    ),
    "strided": (nn.Sequential(nn.Conv2d(16, 24, 5, 3, 2), nn.ReLU(), nn.Conv2d(24, 8, 1, 2)), 0.0),
    "depthwise": (
        nn.Sequential(
            nn.Conv2d(16, 64, 1),
            nn.ReLU6(),
            nn.Conv2d(64, 64, 3, 2, 1, groups=64),
            nn.ReLU6(),
            nn.Conv2d(64, 16, 1),
        ),
        0.5,
    ),
    "groups": (nn.Conv2d(32, 32, 3, padding=1, groups=4), 0.0),
    "pooled": (
        nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, 1, 1)),
        0.0,
    ),
    "twice before a pooling": (
        nn.Sequential(
            *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()),
            *(nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        ),
        0.0,
    ),
}


@pytest.fixture(scope="module", params=sorted(NETWORKS))
def compiled(request):
    torch.manual_seed(0)
    model, sparsity = NETWORKS[request.param]
    model = model.eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.copy_(torch.randint(-3, 4, parameter.shape))
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    channels = next(m for m in model.modules() if isinstance(m, nn.Conv2d)).in_channels
    dims = {
        0: torch.export.Dim("batch", max=8),
        2: torch.export.Dim("height", min=7, max=64),
        3: torch.export.Dim("width", min=7, max=64),
    }
    x = torch.zeros(2, channels, 16, 20)
    return model, ts.compile(model, (x,), dynamic_shapes=(dims,), config=CONFIG), channels


@pytest.mark.grid
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_any_extents(compiled, size):
    model, library, channels = compiled
    batch, height, width = size
    x = torch.randint(-4, 5, (batch, channels, height, width)).float()
    assert torch.equal(torch.as_tensor(library(x)), model(x))


def test_convolutions_are_ours(compiled):
    _model, library, _channels = compiled
    convolutions = [kernel for kernel in library.kernels if "conv" in kernel.function]
    assert convolutions
    assert all(kernel.rule != "Generic" for kernel in convolutions)
    names = [kernel.function for kernel in library.kernels]
    behind = names[2 if names[0] == "open_turn" else 1 :]  # the input, channels last with borders
    assert not any("pad" in name for name in behind if name != "fused_pad")
