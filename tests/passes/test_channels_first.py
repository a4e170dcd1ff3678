"""Which convolutions lie between transpositions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tvm_sparse.passes.lower import channels_first
from tvm_sparse.passes.lower.channels_first import before_transpositions


def module(after, *, twice=False):
    """Return a channels-last convolution, then ``after`` its result."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((1, 8, 8, 64), "float32"))
    w = relax.Var("w", relax.TensorType((64, 3, 3, 16), "float32"))
    with builder.function("main", [x, w]):
        with builder.dataflow():
            layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
            y = builder.emit(relax.op.nn.conv2d(x, w, groups=4, padding=1, **layouts))
            z = builder.emit(after(y))
            z = builder.emit(relax.op.add(z, y)) if twice else z
            out = builder.emit_output(z)
        builder.emit_func_output(out)
    return tvm.relax.transform.CanonicalizeBindings()(builder.get())


def turned(y):
    return relax.op.permute_dims(y, [0, 3, 1, 2])


def tiles(y):
    """As behind a transposed convolution of two steps: 32 of 64 features are those of a row."""
    parts = relax.op.permute_dims(relax.op.reshape(y, (1, 8, 8, 2, 32)), [0, 1, 3, 2, 4])
    return turned(relax.op.reshape(parts, (1, 16, 8, 32)))


BIAS = relax.const([1.0] * 64, "float32")


@pytest.mark.parametrize(
    ("after", "skips_transpose"),
    [
        (turned, [True]),
        (lambda y: turned(relax.op.nn.relu(y)), [True]),
        (lambda y: turned(relax.op.nn.relu(relax.op.add(y, BIAS))), [True]),
        (lambda y: relax.op.reshape(turned(y), (1, 64, 64)), [True]),
        (lambda y: turned(relax.op.reshape(y, (1, 4, 16, 64))), [True]),
        (lambda y: relax.op.permute_dims(y, [0, 3, 2, 1]), [False]),
        (tiles, [False]),
        (lambda y: relax.op.permute_dims(y, [0, 2, 1, 3]), []),
        (lambda y: relax.op.reshape(y, (1, 64, 64)), []),
        (lambda y: turned(relax.op.add(y, relax.op.nn.relu(y))), []),
        (lambda y: turned(relax.op.nn.softmax(y)), []),
        (relax.op.nn.relu, []),
    ],
)
def test_results_that_are_transposed(after, skips_transpose):
    mod = relax.transform.Normalize()(module(after))
    assert list(before_transpositions(mod).values()) == skips_transpose


def test_results_that_are_read_twice():
    assert not before_transpositions(module(relax.op.nn.relu, twice=True))


def test_results_of_several_readers_in_a_tuple():
    def both(y):
        return relax.Tuple([turned(y), y])

    assert not before_transpositions(module(both))


@pytest.mark.grid
@pytest.mark.parametrize("also", [False, True])
def test_the_result_of_a_program(also):
    """Once, a result that was returned in a tuple could not be compiled."""
    layer = nn.Conv2d(32, 32, 3, padding=1, groups=2)
    with torch.no_grad():
        layer.weight.masked_fill_(torch.rand(layer.weight.shape) < 0.75, 0)

    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            y = self.layer(x).permute(0, 2, 3, 1)
            return (y, self.layer(x)) if also else y

    x = torch.randn(1, 32, 8, 8)
    model = Turned().eval()
    run = ts.compile(model, (x,), config=ts.Config(measure=False, cache=False))
    for got, expected in zip(run.run(x.numpy()), model(x) if also else (model(x),), strict=True):
        np.testing.assert_allclose(got, expected.detach().numpy(), rtol=1e-4, atol=1e-4)


@pytest.mark.grid
@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        (nn.Conv2d(32, 32, 3, padding=1, groups=32), (1, 32, 9, 11)),
        (nn.Conv2d(16, 48, 3, padding=1, stride=2, groups=16), (2, 16, 12, 13)),
        (nn.Conv1d(20, 80, 5, dilation=2, groups=20), (1, 20, 40)),
        (nn.Conv3d(16, 16, 3, padding=(1, 0, 2), groups=16), (1, 16, 4, 5, 6)),
        (nn.Conv2d(3, 24, 3, padding="same", groups=3, bias=False), (1, 3, 16, 16)),
    ],
)
def test_a_plane_for_each_channel(layer, shape):
    with torch.no_grad():
        layer.weight.masked_fill_(torch.rand(layer.weight.shape) < 0.75, 0)
        x = torch.randn(shape)
        expected = layer(x)
    config = ts.Config(measure=False, cache=False, force={"*": "unstructured"})
    library = ts.compile(layer.eval(), (x,), config=config)
    np.testing.assert_allclose(library(x).numpy(), expected.numpy(), atol=1e-5)
    assert [kernel.rule for kernel in library.kernels] == ["Planes"]


def test_a_layer_among_others_keeps_its_channels_last():
    between = nn.Conv2d(32, 32, 3, padding=1, groups=32)
    module = nn.Sequential(nn.Conv2d(8, 32, 1), between, nn.Conv2d(32, 8, 1)).eval()
    with torch.no_grad():
        between.weight.masked_fill_(torch.rand(between.weight.shape) < 0.75, 0)
    library = ts.compile(
        module, (torch.randn(1, 8, 9, 9),), config=ts.Config(measure=False, cache=False)
    )
    assert "Planes" not in {kernel.rule for kernel in library.kernels}


def test_axes_take_each_other_back():
    first, last = channels_first.last_to_first(2), channels_first.first_to_last(2)
    assert [first[axis] for axis in last] == [0, 1, 2, 3]
