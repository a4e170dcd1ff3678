"""Convolutions with ``padding="same"`` are quantised, with even and dilated kernels, too."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

pytest.importorskip("torchao")


@pytest.mark.parametrize(
    ("kernel", "dilation"), [(3, 1), (2, 1), ((2, 5), (1, 2)), ((4, 3), (3, 1))]
)
def test_same_and_valid(kernel, dilation):
    torch.manual_seed(0)
    same = nn.Conv2d(16, 16, kernel, padding="same", dilation=dilation)
    model = nn.Sequential(same, nn.ReLU(), nn.Conv2d(16, 32, 3, padding="valid")).eval()
    x = torch.randn(1, 16, 12, 14)
    program = ts.quantize(model, [x])
    library = ts.compile(program, config=ts.Config(measure=False))
    with torch.no_grad():
        expected, quantised = model(x), program.module()(x)
    assert (quantised - expected).abs().max() < 0.03 * expected.abs().max()
    assert (library(x) - quantised).abs().max() < 1e-5
    assert sum("uint8" in k.function for k in library.kernels if k.layer) == 2
