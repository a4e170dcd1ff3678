"""Convolutions with ``padding="same"`` are quantized, with even and dilated kernels, too."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.quantization.quantized import layers_in_bytes

pytest.importorskip("torchao")


@pytest.mark.grid
@pytest.mark.parametrize(
    ("kernel", "dilation"), [(3, 1), (2, 1), ((2, 5), (1, 2)), ((4, 3), (3, 1))]
)
def test_same_and_valid(kernel, dilation):
    torch.manual_seed(0)
    same = nn.Conv2d(16, 16, kernel, padding="same", dilation=dilation)
    model = nn.Sequential(same, nn.ReLU(), nn.Conv2d(16, 32, 3, padding="valid")).eval()
    assert layers_in_bytes(model, torch.randn(1, 16, 12, 14)) == 2
