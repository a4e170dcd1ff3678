"""Kernels without the taps that only meet borders: the same results, smaller weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

FAST = ts.Config(measure=False)

CASES = {
    "a pyramid's": (nn.Conv2d(16, 32, 3, padding=36, dilation=36), (1, 16, 14, 14), (1, 1)),
    "one axis": (nn.Conv2d(16, 32, 3, padding=(9, 5), dilation=(9, 5)), (2, 16, 9, 6), (1, 3)),
    "both ends": (nn.Conv1d(16, 32, 4, padding=9, dilation=6, stride=2), (1, 16, 9), (2,)),
    "one end": (nn.Conv1d(16, 32, 3, padding=3, dilation=3, stride=4), (1, 16, 4), (2,)),
    "depthwise": (nn.Conv2d(32, 32, 5, padding=6, dilation=3, groups=32), (1, 32, 6, 3), (3, 1)),
    "groups": (nn.Conv2d(64, 64, 3, padding=8, dilation=8, groups=4), (1, 64, 8, 8), (1, 1)),
    "a volume": (nn.Conv3d(16, 16, 3, padding=1), (1, 16, 1, 5, 1), (1, 3, 1)),
}
OTHERS = {
    "every tap meets something": (nn.Conv2d(16, 32, 3, padding=13, dilation=13), (1, 16, 14, 14)),
    "the input's begin is cut": (
        nn.Conv1d(16, 32, 2, padding=9, dilation=12, stride=12),
        (1, 16, 4),
    ),
    "no borders": (nn.Conv2d(16, 32, 3), (1, 16, 9, 9)),
}


def compiled(layer, shape):
    """Return the decision on the layer, after comparing the result with PyTorch's."""
    torch.manual_seed(0)
    with torch.no_grad():
        layer.weight.copy_(torch.randint(-3, 4, layer.weight.shape))
        layer.bias.copy_(torch.arange(len(layer.bias)))
        x = torch.randint(-4, 5, shape).float()
        library = ts.compile(layer, (x,), config=FAST)
        assert torch.equal(library(x), layer(x))
    (decision,) = library.decisions
    return decision


@pytest.mark.grid
@pytest.mark.parametrize("name", CASES)
def test_taps_that_meet_only_borders_leave(name):
    layer, shape, taps = CASES[name]
    decision = compiled(layer, shape)
    assert tuple(decision.shape)[2:] == taps
    kernels = " of ".join(" x ".join(map(str, k)) for k in (taps, layer.weight.shape[2:]))
    assert f"{kernels} taps meet more than borders" in decision.reason


@pytest.mark.grid
@pytest.mark.parametrize("name", OTHERS)
def test_other_kernels_stay(name):
    layer, shape = OTHERS[name]
    assert tuple(compiled(layer, shape).shape) == tuple(layer.weight.shape)
