"""Saved programs that compute extents of axes which turned out to be closed."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.frontends.reloaded import reloaded


class Closed(nn.Module):
    """Adds rows of a table before something shows that there are twelve."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(1, 40, 4))

    def forward(self, x):
        n = torch.cat([x, x[:, :1]], 1).shape[1]
        x = torch.cat([x, x[:, :1]], 1) / n + self.table[:, :n]
        return (x * 2).view(x.shape[0], 52), x[:, n - 2]


def test_extents_that_are_known_are_numbers():
    torch.manual_seed(0)
    model, x = Closed(), torch.randn(3, 12, 4)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO},))
    library = ts.compile(reloaded(program))
    for found, wanted in zip(library(x[:2]), model(x[:2]), strict=True):
        torch.testing.assert_close(found, wanted)
