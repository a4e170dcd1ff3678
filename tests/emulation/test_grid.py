"""Formats, odd shapes, borders, epilogues and dynamic batches: executed, and equal to PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.cuda.kernels import needs_nvrtc
from tests.emulation.exact import Branch, check, integers, sample

pytestmark = [pytest.mark.slow, needs_nvrtc]

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


CONVOLUTIONS = {
    "3x3": {"kernel_size": 3, "padding": 1},
    "strided": {"kernel_size": 3, "padding": 1, "stride": 2},
    "dilated": {"kernel_size": 3, "padding": 2, "dilation": 2},
    "no padding": {"kernel_size": (3, 2)},
    "1x1": {"kernel_size": 1},
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["dense", "balanced"])
@pytest.mark.parametrize("rows", [1, 5, 33])
def test_linear(rows, format, dtype):
    shapes = [(67, 40), (40, 40), (40, 129)]
    model = integers(nn.Sequential(*(Branch(nn.Linear(*shape)) for shape in shapes)))
    force = {f"{i}.layer": format for i in range(3)}
    check(model.to(dtype), sample((rows, 67), dtype), force)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["block", "joint"])
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_tiles(rows, format, dtype):
    # Masks of the later layers leave no whole step of float32's tiles empty, which joint needs.
    few = format == "joint" and dtype is torch.float32
    shapes = [(256, 128), *([] if few else [(128, 128), (128, 192)])]
    model = nn.Sequential(*(Branch(nn.Linear(*shape)) for shape in shapes))
    force = {f"{i}.layer": format for i in range(len(shapes))}
    check(integers(model, 64).to(dtype), sample((rows, 256), dtype), force)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["dense", "balanced"])
def test_dynamic_batch(format, dtype):
    model = integers(nn.Sequential(Branch(nn.Linear(48, 64)), Branch(nn.Linear(64, 64))))
    force = {f"{i}.layer": format for i in range(2)}
    check(model.to(dtype), sample((40, 48), dtype), force, batches=(1, 3, 16, 17, 40))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["block", "joint"])
def test_dynamic_batch_of_tiles(format, dtype):
    model = integers(nn.Sequential(Branch(nn.Linear(256, 128))), 64)
    check(model.to(dtype), sample((40, 256), dtype), {"0.layer": format}, batches=(1, 17, 40))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["dense", "balanced"])
@pytest.mark.parametrize("form", ["strided", "1x1"])
def test_dynamic_batch_of_images(form, format, dtype):
    model = integers(nn.Sequential(Branch(nn.Conv2d(12, 36, **CONVOLUTIONS[form]))))
    check(model.to(dtype), sample((3, 12, 9, 7), dtype), {"0.layer": format}, batches=(1, 3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dynamic_batch_of_channels(dtype):
    layer = nn.Conv2d(40, 40, 3, padding=1, groups=40)
    model = integers(nn.Sequential(Branch(layer), nn.Conv2d(40, 16, 1)))
    check(model.to(dtype), sample((3, 40, 9, 7), dtype), {"0.layer": "dense"}, batches=(1, 3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["dense", "balanced"])
@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_convolutions(form, format, dtype):
    model = integers(nn.Sequential(Branch(nn.Conv2d(12, 36, **CONVOLUTIONS[form]))))
    check(model.to(dtype), sample((2, 12, 9, 7), dtype), {"0.layer": format})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["block", "joint"])
@pytest.mark.parametrize("form", CONVOLUTIONS)
def test_convolutions_of_tiles(form, format, dtype):
    layer = nn.Conv2d(128, 64, **CONVOLUTIONS[form])
    model = integers(nn.Sequential(Branch(layer)))
    with torch.no_grad():
        layer.weight[:, :64] = 0
    check(model.to(dtype), sample((2, 128, 9, 7), dtype), {"0.layer": format})


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("format", ["dense", "depthwise_taps"])
@pytest.mark.parametrize("form", ["3x3", "strided", "dilated", "no padding"])
def test_depthwise(form, format, dtype):
    layer = nn.Conv2d(40, 40, groups=40, **CONVOLUTIONS[form])
    model = integers(nn.Sequential(Branch(layer)))
    check(model.to(dtype), sample((2, 40, 9, 7), dtype), {"0.layer": format})
