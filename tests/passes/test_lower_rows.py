"""Operators of rows among others that are fused with them, whatever their extents are."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)


class Rows(nn.Module):
    """Rows of three times as many steps, narrowed behind what they become."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(32, 48)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        y = torch.cat([x, x * 2, x], 1)
        return (
            torch.softmax(self.linear(y), -1).half(),
            self.norm(y).half(),
            y.softmax(-1) * x[0, 0],
        )


def test_rows_of_a_computed_extent_are_fused():
    torch.manual_seed(0)
    model, shapes = Rows().eval().requires_grad_(False), ({1: Dim("n", min=4, max=40)},)
    library = ts.compile(model, (torch.rand(2, 20, 32),), dynamic_shapes=shapes, config=CONFIG)
    for length in (4, 5, 16, 33, 40):
        x = torch.rand(2, length, 32)
        for found, wanted in zip(library(x), model(x), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-4)
