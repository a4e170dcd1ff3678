"""The rule for grouped convolutions by shifts inside compiled modules: whatever epilogue."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.schedules.layers import assert_like_torch, prune


class Block(nn.Module):
    """A grouped convolution with a bias, an activation and a residual addition."""

    def __init__(self, stride=1):
        super().__init__()
        self.grouped = nn.Conv2d(64, 64, 3, stride, 1, groups=4)
        self.stride = stride

    def forward(self, x):
        """Return the block's result."""
        return torch.relu(self.grouped(x)) + x[:, :, :: self.stride, :: self.stride]


@pytest.mark.grid
@pytest.mark.parametrize("stride", [1, 2])
def test_epilogues(stride):
    model = Block(stride)
    prune(model, 1, 1, 0.8)
    library = assert_like_torch(model, torch.randn(2, 64, 14, 14), "unstructured")
    assert [k.rule for k in library.kernels if "conv2d" in k.function] == ["ShiftedRows"]


def test_joined_groups():
    model = nn.Conv1d(64, 64, 3, groups=16)
    model.weight.data *= torch.rand(model.weight.shape) > 0.5
    assert_like_torch(model, torch.randn(1, 64, 50), "unstructured")


def test_groups_on_threads():
    model = nn.Conv2d(64, 128, 3, padding=1, groups=4)
    prune(model, 1, 1, 0.5)
    assert_like_torch(model, torch.randn(1, 64, 30, 30), "unstructured")
