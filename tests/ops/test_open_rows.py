"""Softmax along an open axis: the numbers of PyTorch, and the bits of closed extents."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.machine.vector import LANES

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
EXTENTS = (1, LANES - 1, LANES, LANES + 1, 2 * LANES, 37, 128)


@pytest.mark.grid
@pytest.mark.parametrize("layer", [nn.Softmax(-1), nn.LogSoftmax(-1)], ids=["softmax", "log"])
def test_values_at_all_extents(layer):
    shapes = ({0: torch.export.Dim("n"), 2: torch.export.Dim("t")},)
    library = ts.compile(layer, (torch.randn(2, 3, 20),), dynamic_shapes=shapes, config=CONFIG)
    for extent in EXTENTS:
        x = 3 * torch.randn(3, 3, extent)
        x[0, 0, 0] = x[0, 1, -1] = 80
        torch.testing.assert_close(library(x), layer(x), rtol=1e-5, atol=1e-6)


@pytest.mark.grid
@pytest.mark.parametrize("extent", [LANES, LANES + 1, 37])
def test_bits_are_those_of_the_closed_program(extent):
    x = torch.randn(2, 3, extent)
    shapes = ({2: torch.export.Dim("t")},)
    opened = ts.compile(nn.Softmax(-1), (x,), dynamic_shapes=shapes, config=CONFIG)
    assert torch.equal(opened(x), ts.compile(nn.Softmax(-1), (x,), config=CONFIG)(x))


def test_special_values_stay_in_their_rows():
    x = torch.randn(4, 21)
    x[0, 20], x[1, 0], x[2, 3], x[3] = torch.nan, torch.inf, -torch.inf, -torch.inf
    shapes = ({1: torch.export.Dim("t")},)
    library = ts.compile(nn.Softmax(-1), (x,), dynamic_shapes=shapes, config=CONFIG)
    closed = ts.compile(nn.Softmax(-1), (x,), config=CONFIG)
    torch.testing.assert_close(library(x), closed(x), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(library(x)[:3], torch.softmax(x, -1)[:3], equal_nan=True)
