"""Coarse masks on tiles that neither rows nor steps fill: where copies and buffers went wrong."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import check, integers, sample

pytestmark = needs_nvrtc


@pytest.mark.grid
@pytest.mark.parametrize(
    ("format", "dtype"),
    [
        # Five of a tile's eight rows: the table of blocks was read past its end.
        ("block", torch.float32),
        # One step of the reduction: banks were decoded over the words that other threads read.
        ("joint", torch.float16),
    ],
)
def test_partial_tiles(format, dtype):
    model = integers(nn.Sequential(nn.Linear(128, 192)))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].weight[64:128, :64] = (torch.arange(64) % 32 < 26).float()
    check(model.to(dtype), sample((5, 128), dtype), {"0": format})


@pytest.mark.grid
@pytest.mark.parametrize(
    ("layer", "shape", "dtype"),
    [
        (nn.Linear(72, 40), (33, 72), torch.bfloat16),
        (nn.Conv2d(12, 36, 3, padding=1, stride=2), (2, 12, 9, 7), torch.float16),
    ],
)
def test_two_of_four(layer, shape, dtype):
    model = integers(nn.Sequential(copy.deepcopy(layer)))
    with torch.no_grad():
        for zero in (1, 2):
            model[0].weight[:, zero::4] = 0
    check(model.to(dtype), sample(shape, dtype), {"0": "two_four"})
