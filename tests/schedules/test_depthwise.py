"""The rule for depthwise convolutions: the order of strips and channels, and any epilogue."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.kernels import host
from tests.schedules.layers import assert_like_torch
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.depthwise import depthwise
from tvm_sparse.schedules.cpu.depthwise import DepthwiseRule


def outer_loops(width, stride):
    """Return the extents of the loops around the register tile."""
    pixels = width // stride
    layer = Contraction(
        (1, 5, pixels), 48, 48, (3, 3), (stride, stride), (1, 1), (20, width + 2), depthwise=True
    )
    schedule = DepthwiseRule().apply(depthwise(layer, host()), host(), tunable=False)
    loops = [schedule.get(x) for x in schedule.get_loops(schedule.get_sblock("store"))]
    return [int(x.extent) for x in loops if int(x.kind) in (0, 1) and int(x.extent) > 1]


@pytest.mark.parametrize(
    ("width", "stride", "loops"),
    [
        # Rows, three vectors of channels, strips of eight pixels: taps stay in registers.
        (56, 1, [5, 3, 7]),
        (32, 2, [5, 3, 2]),
        # Long rows of input: strips, then channels.
        (112, 1, [5, 14, 3]),
        (112, 2, [5, 7, 3]),
    ],
)
def test_channels_pass_whole_rows_of_small_planes(width, stride, loops):
    assert outer_loops(width, stride) == loops


@pytest.mark.grid
@pytest.mark.parametrize("size", [9, 72])
def test_epilogues(size):
    layers = nn.Conv2d(32, 32, 3, padding=1, groups=32), nn.BatchNorm2d(32), nn.Hardswish()
    assert_like_torch(nn.Sequential(*layers).eval(), torch.randn(1, 32, 5, size), "dense")
