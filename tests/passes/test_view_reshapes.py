"""Functions that TVM's analysis of reshapes cannot read stay kernels, the others become views."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts


def test_convolutions_over_open_lengths():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(4, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 32, 5), nn.ReLU()
    ).eval()
    config, length = ts.Config(measure=False), Dim("t", min=16, max=4096)
    library = ts.compile(
        model, (torch.randn(2, 4, 64),), dynamic_shapes=({2: length},), config=config
    )
    for extent in (16, 64, 1001):
        x = torch.randn(2, 4, extent)
        with torch.no_grad():
            torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_reshapes_of_fixed_extents_are_no_kernels():
    model = nn.Sequential(nn.Linear(16, 64), nn.Unflatten(1, (8, 8)))
    library = ts.compile(model, (torch.randn(4, 16),), config=ts.Config(measure=False))
    assert len(library.kernels) == 1
