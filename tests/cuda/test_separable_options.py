"""When a depthwise and a 1x1 convolution are modelled faster as one kernel, and in which tiles."""

from __future__ import annotations

import dataclasses

import pytest

from tests.cuda.kernels import dynamic_shared, scheduled, target
from tests.cuda.test_separable import pair
from tvm_sparse.base.numerics import FLOAT32
from tvm_sparse.passes.lower.fuse_depthwise import fused
from tvm_sparse.schedules.cuda.separable import SeparableRule
from tvm_sparse.selection.cuda import options
from tvm_sparse.selection.cuda.separable_options import separable, shared_bytes

LAYERS = {
    "MobileNet-V2 56x56x144": (56, 144, 3, 1, 24),
    "MobileNet-V2 28x28x192/2": (28, 192, 3, 2, 64),
    "MobileNet-V2 7x7x960": (7, 960, 3, 1, 320),
    "odd plane, 5x5": (13, 72, 5, 1, 40),
}


def layers(name, batch, dtype):
    option = pair(batch, *LAYERS[name], None, dtype)
    return option.first, option.second


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_tiles_can_be_scheduled(name, dtype):
    found = separable(*layers(name, 32, dtype), target("sm_80"))
    shape, width = found.shape, found.first.lead[2]
    threads = shape.down * shape.across * (1 if dtype == "float32" else 32)
    strips = shape.tile.rows // shape.strip * shape.tile.columns // shape.lanes
    assert width % shape.strip == shape.tile.rows % shape.strip == 0
    assert strips % threads == 0
    assert 64 <= threads <= 512
    unit = 4 if dtype == "float32" else 16
    assert shape.tile.features % (unit * shape.across) == 0
    assert shape.tile.rows % (shape.down * (1 if dtype == "float32" else 16)) == 0
    for format, c in zip(found.formats, (found.first, found.second), strict=True):
        assert format.nbytes() >= c.features * c.matrix_shape[1] * 4


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_shared_memory_is_bounded(dtype):
    """The estimate is never below what the compiler takes: a launch would fail."""
    found = separable(*layers("MobileNet-V2 28x28x192/2", 32, dtype), target())
    func = scheduled(fused(found, lambda builder, x, operands: x), SeparableRule())
    bound = shared_bytes(found.shape.tile, 4 if dtype == "float32" else 2)
    assert bound / 4 <= dynamic_shared(func) <= bound


def test_the_tensor_between_is_what_is_saved():
    found = separable(*layers("MobileNet-V2 56x56x144", 32, "float16"), target())
    assert found.saved == 2 * 2 * 32 * 56 * 56 * 144


@pytest.mark.parametrize(
    ("name", "batch", "faster"),
    [
        ("MobileNet-V2 56x56x144", 32, True),
        ("MobileNet-V2 28x28x192/2", 256, True),
        ("MobileNet-V2 7x7x960", 1, False),
        ("MobileNet-V2 7x7x960", 32, False),
    ],
)
def test_large_planes_gain_small_ones_lose(name, batch, faster):
    first, second = layers(name, batch, "float16")
    apart = sum(options.dense(c, target()).seconds for c in (first, second))
    assert (separable(first, second, target()).seconds < apart) == faster


def test_what_does_not_fit_is_named():
    first, second = layers("MobileNet-V2 56x56x144", 32, "float16")

    def reason(one=first, two=second):
        return separable(one, two, target())

    assert "batch is not known" in reason(dataclasses.replace(first, lead=(object(), 56, 56)))
    assert "not a plain 1x1" in reason(two=dataclasses.replace(second, strides=(2, 2)))
    assert "not a plain 1x1" in reason(two=dataclasses.replace(second, taps=(3, 3)))
    assert "types differ" in reason(two=dataclasses.replace(second, numerics=FLOAT32))
    assert "multiple of 4" in reason(dataclasses.replace(first, columns=145, features=145))
