"""``F.interpolate`` of open planes by whole factors is PyTorch's; other uses are refused."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse.errors import UnsupportedError

OPEN = ({2: Dim("h", min=2, max=64), 3: Dim("w", min=2, max=64)},)
LARGER = ({2: Dim("h", min=6, max=64), 3: Dim("w", min=6, max=64)},)


def special(*shape):
    x = torch.randn(2, 3, *shape)
    x[0, 0, 1, 1], x[1, 0, 0, 1] = torch.inf, torch.nan
    return x


def interpolated(**options):
    return lambda x: F.interpolate(x, **options)


@pytest.mark.grid
@pytest.mark.parametrize(
    "function",
    [
        interpolated(scale_factor=2, mode="nearest"),
        interpolated(scale_factor=(7, 3), mode="nearest"),
        interpolated(scale_factor=5.0, mode="nearest-exact"),
        interpolated(scale_factor=(2, 8), mode="bilinear"),
        interpolated(scale_factor=4.0, mode="bilinear"),
    ],
)
def test_whole_factors(function):
    library = ts.compile(Apply(function), (special(6, 7),), dynamic_shapes=OPEN)
    for shape in ((6, 7), (13, 5), (2, 33)):
        x = special(*shape)
        torch.testing.assert_close(library(x), function(x), equal_nan=True)


def test_one_axis_by_its_extent():
    def function(x):
        return F.interpolate(x, size=(x.shape[2] * 4, x.shape[3]), mode="bilinear")

    library = ts.compile(Apply(function), (special(6, 7),), dynamic_shapes=OPEN)
    x = torch.randn(2, 3, 5, 9)
    torch.testing.assert_close(library(x), function(x))


@pytest.mark.grid
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_floats(dtype):
    function = interpolated(scale_factor=2.0, mode="bilinear")
    x = special(6, 7).to(dtype)
    step = 2 * torch.finfo(dtype).eps  # each axis is rounded to halves
    library = ts.compile(Apply(function), (x,), dynamic_shapes=OPEN)
    torch.testing.assert_close(library(x), function(x), rtol=step, atol=4 * step, equal_nan=True)


@pytest.mark.filterwarnings("ignore::tvm_sparse.errors.SlowKernelWarning")
def test_a_layer_behind_and_before_convolutions():
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1), nn.ReLU(), nn.Upsample(scale_factor=2.0), nn.Conv2d(16, 8, 1)
    ).eval()
    library = ts.compile(model, (torch.randn(1, 3, 64, 64),), dynamic_shapes=OPEN)
    x = torch.randn(1, 3, 32, 48)
    torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


GENERAL = {
    "linear": interpolated(scale_factor=1.5, mode="bilinear"),
    "nearest": interpolated(scale_factor=0.5, mode="nearest"),
    "exact": interpolated(scale_factor=(1.25, 0.75), mode="nearest-exact"),
    "thrice": interpolated(scale_factor=3.0, mode="bilinear"),
    "corners": interpolated(scale_factor=2.0, mode="bilinear", align_corners=True),
    "cubic": interpolated(scale_factor=2.0, mode="bicubic"),
    "cubic corners": interpolated(scale_factor=1.5, mode="bicubic", align_corners=True),
    "to a size": interpolated(size=(9, 5), mode="nearest"),
    "to a size, linear": interpolated(size=(9, 1), mode="bilinear", align_corners=True),
    "to a size, cubic": interpolated(size=(3, 17), mode="bicubic"),
    "as large as others": lambda x: F.interpolate(x[:, :, ::2], size=x.shape[2:], mode="bilinear"),
    "as large, nearest": lambda x: F.interpolate(x[:, :, ::3], size=x.shape[2:]),
    "one line": lambda x: F.interpolate(x[:, :, 0], size=x.shape[3] + 5, mode="linear"),
    "halved": lambda x: F.interpolate(x, size=(x.shape[2] // 2, x.shape[3] * 3), mode="bicubic"),
}


@pytest.mark.grid
@pytest.mark.filterwarnings("ignore::tvm_sparse.errors.SlowKernelWarning")
@pytest.mark.parametrize("name", GENERAL)
def test_any_size(name):
    config = ts.Config(measure=False)
    function = GENERAL[name]
    x = torch.randn(1, 3, 9, 8)
    library = ts.compile(Apply(function), (x,), dynamic_shapes=LARGER, config=config)
    for shape in ((6, 7), (13, 6), (7, 33), (31, 64), (64, 6), (47, 16)):
        x = torch.randn(1, 3, *shape)
        torch.testing.assert_close(library(x), function(x), rtol=1e-5, atol=2e-5)


def test_extents_have_one_form():
    """Those of a transposed convolution are ``3 * n - 1``, which TVM writes in several ways."""
    layers = (nn.ConvTranspose1d(8, 8, 2, 3), nn.Upsample(scale_factor=2), nn.Conv1d(8, 8, 1))
    model, config = nn.Sequential(*layers).eval().requires_grad_(False), ts.Config(measure=False)
    shapes = ({2: Dim("n", min=2, max=64)},)
    library = ts.compile(model, (torch.randn(3, 8, 21),), dynamic_shapes=shapes, config=config)
    for steps in (2, 5, 16):
        x = torch.randn(3, 8, steps)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_the_largest_of_open_planes():
    config = ts.Config(measure=False)
    layer = nn.AdaptiveMaxPool2d(1, return_indices=True)
    library = ts.compile(layer, (special(6, 7),), dynamic_shapes=OPEN, config=config)
    for shape in ((6, 7), (2, 33), (64, 3)):
        x = torch.randn(2, 3, *shape)
        for found, expected in zip(library(x), layer(x), strict=True):
            assert torch.equal(found, expected)


@pytest.mark.grid
@pytest.mark.parametrize(
    "options",
    [
        {"scale_factor": 1.1, "mode": "nearest"},
        {"scale_factor": 0.5, "mode": "bilinear", "antialias": True},
    ],
)
def test_others_are_refused(options):
    with pytest.raises(UnsupportedError, match=re.escape("resizes an open height or width")):
        ts.compile(Apply(interpolated(**options)), (special(6, 7),), dynamic_shapes=LARGER)
