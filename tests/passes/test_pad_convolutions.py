"""PadConvolutions: convolutions put the zeros around what they read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.pad_convolutions import PadConvolutions

RNG = np.random.default_rng(0)
SHAPES = {1: (2, 6, 9), 2: (2, 6, 9, 7), 3: (1, 6, 5, 4, 6)}
CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}
BORDERS = {"behind": [0, 1], "before": [2, 0], "both": [1, 3]}


def emit(value):
    return relax.BlockBuilder.current().emit(value)


def padded(x, widths, value=0.0, mode="constant"):
    return emit(relax.op.nn.pad(x, widths, mode, value))


def convolved(x, rank=2, **options):
    shape = (4, 6 // options.get("groups", 1), *[3] * rank)
    if options.get("groups", 1) > 1:
        shape = (6, *shape[1:])
    weight = relax.const(RNG.integers(-3, 4, shape).astype("float32"))
    return emit(CONVOLUTIONS[rank](x, weight, **options))


def both(body, shape=SHAPES[2]):
    """Return ``body`` as a module before and after the pass, whose results are equal."""
    before = module(body, shape)
    after = PadConvolutions()(before)
    x = RNG.integers(-4, 5, shape).astype("float32")
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))
    return operators(before), operators(after)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("border", BORDERS)
@pytest.mark.parametrize("options", [{}, {"strides": 2, "padding": 1}, {"groups": 6}], ids=str)
def test_zeros_become_borders(rank, border, options):
    widths = [0] * 4 + BORDERS[border] * rank
    _, after = both(lambda x: convolved(padded(x, widths), rank, **options), SHAPES[rank])
    assert "nn.pad" not in after


def test_axes_keep_their_own_borders():
    _, after = both(lambda x: convolved(padded(x, [0, 0, 0, 0, 1, 0, 2, 3])))
    assert "nn.pad" not in after


def test_channels_last():
    def body(x):
        weight = relax.const(RNG.integers(-3, 4, (4, 3, 3, 6)).astype("float32"))
        around = padded(x, [0, 0, 0, 1, 2, 0, 0, 0])
        return emit(relax.op.nn.conv2d(around, weight, data_layout="NHWC", kernel_layout="OHWI"))

    _, after = both(body, (2, 9, 7, 6))
    assert "nn.pad" not in after


def steps(x, zero):
    """Quantize and dequantize, in the operators of a traced network."""
    x = emit(relax.op.round(emit(relax.op.multiply(x, relax.const(2.0)))))
    x = emit(relax.op.clip(emit(relax.op.add(x, relax.const(zero))), 0, 255))
    x = emit(relax.op.astype(emit(relax.op.astype(x, "uint8")), "float32"))
    return emit(relax.op.divide(emit(relax.op.subtract(x, relax.const(zero))), relax.const(2.0)))


@pytest.mark.parametrize(
    ("value", "folds"), [(0.0, True), (0.2, True), (0.5, False), (-0.75, False)]
)
def test_steps_may_stand_between(value, folds):
    _, after = both(lambda x: convolved(steps(padded(x, [0] * 5 + [1, 0, 1], value), 100.0)))
    assert ("nn.pad" not in after) == folds
    assert after["round"] == 1


def test_one_pad_of_two_convolutions():
    def body(x):
        around = padded(x, [0] * 4 + [1] * 4)
        return emit(relax.op.add(convolved(around), convolved(emit(relax.op.nn.relu(around)))))

    _, after = both(body)
    assert "nn.pad" not in after


@pytest.mark.parametrize(
    "body",
    [
        lambda x: convolved(padded(x, [0] * 4 + [1] * 4, 1.0)),
        lambda x: convolved(padded(x, [0] * 4 + [1] * 4, mode="reflect")),
        lambda x: convolved(
            padded(emit(relax.op.strided_slice(x, [1], [0], [5])), [0, 0, 0, 1] * 2)
        ),
        lambda x: convolved(emit(relax.op.add(padded(x, [0] * 4 + [1] * 4), relax.const(1.0)))),
        lambda x: emit(relax.op.nn.max_pool2d(padded(x, [0] * 4 + [1] * 4), 2)),
    ],
    ids=["ones", "reflected", "channels", "a step makes ones", "no convolution"],
)
def test_left_alone(body):
    before, after = both(body)
    assert after == before


def test_steps_that_others_read_stay():
    def body(x):
        around = emit(relax.op.nn.relu(padded(x, [0] * 4 + [1] * 4)))
        total = emit(relax.op.sum(around, [1, 2, 3], keepdims=True))
        return emit(relax.op.add(convolved(around), total))

    before, after = both(body)
    assert after == before


class Padded(nn.Sequential):
    def __init__(self):
        super().__init__(
            *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU6(), nn.ZeroPad2d((0, 1, 0, 1))),
            *(nn.Conv2d(16, 16, 3, 2, groups=16), nn.ReLU6(), nn.ZeroPad2d((2, 1, 0, 3))),
            nn.Conv2d(16, 32, 3, padding=1),
        )


@pytest.mark.parametrize("int8", [False, True])
def test_layers_write_the_borders(int8):
    """No kernel only copies, in floats or in bytes."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 16, 16)
    network = Padded().eval()
    source = (ts.quantize(network, [x]),) if int8 else (network, (x,))
    library = ts.compile(*source, config=ts.Config(measure=False, cache=False))
    assert not [k.function for k in library.kernels if "pad" in k.function]
    error = (library(x) - network(x)).norm() / network(x).norm()
    assert error < (0.03 if int8 else 1e-6)
