"""Which depthwise convolutions have their result go into a 1x1 convolution and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.passes.modules import module
from tvm_sparse.passes.graph.rewrite import constant, op_name
from tvm_sparse.passes.lower.separable_pairs import Pairs

SHAPE = (2, 8, 8, 16)


def weight(name, *shape):
    return constant(np.ones(shape, "float32"), f"{name}.weight")


def conv(x, name, *shape, groups=1, padding=0):
    options = {"data_layout": "NHWC", "kernel_layout": "OHWI", "groups": groups}
    return relax.op.nn.conv2d(x, weight(name, *shape), padding=padding, **options)


def depthwise(x, name="depthwise"):
    return conv(x, name, 16, 3, 3, 1, groups=16, padding=1)


def pointwise(x, name="pointwise", taps=1):
    return conv(x, name, 24, taps, taps, 16)


def found(body, *shapes):
    mod = relax.transform.Normalize()(module(body, *(shapes or (SHAPE,))))
    return list(Pairs(mod["main"]).find())


def test_what_stands_between_is_listed_in_order():
    def body(x):
        y = relax.op.add(depthwise(x), constant(np.ones(16, "float32")))
        return pointwise(relax.op.multiply(y, relax.op.sigmoid(y)))

    (pair,) = found(body)
    assert [op_name(call) for _, call in pair.between] == ["add", "sigmoid", "multiply"]
    assert (pair.first.layer.name, pair.second.layer.name) == ("depthwise", "pointwise")
    assert pair.first.layer.contraction.borders == (1, 1)
    assert pair.second.layer.weight.shape == (24, 16, 1, 1)
    assert pair.reason == ""


def test_nothing_between():
    (pair,) = found(lambda x: pointwise(depthwise(x)))
    assert (pair.between, pair.reason) == ((), "")


def _gate(x):
    y = depthwise(x)
    return pointwise(relax.op.multiply(y, relax.op.mean(y, (1, 2), keepdims=True)))


def _read_twice(x):
    y = relax.op.nn.relu(depthwise(x))
    return relax.op.concat([pointwise(y), y], -1)


def _each_pixel(x):
    values = constant(np.ones(SHAPE, "float32"))
    return pointwise(relax.op.add(depthwise(x), values))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (_gate, "squeeze-excite"),
        (_read_twice, "read elsewhere"),
        (_each_pixel, "more than one value a channel"),
    ],
)
def test_what_keeps_a_pair_apart_is_named(body, reason):
    (pair,) = found(body)
    assert reason in pair.reason


@pytest.mark.parametrize(
    "body",
    [
        lambda x: pointwise(relax.op.nn.relu(x)),
        lambda x: pointwise(depthwise(x), taps=3),
        lambda x: depthwise(depthwise(x), "second"),
        lambda x: pointwise(relax.op.nn.max_pool2d(depthwise(x), layout="NHWC")),
    ],
    ids=["no depthwise", "no 1x1", "two depthwise", "pooling"],
)
def test_other_neighbours_are_no_pair(body):
    assert found(body) == []


def test_layers_in_network_order():
    mod = relax.transform.Normalize()(module(lambda x: pointwise(depthwise(x)), SHAPE))
    assert Pairs(mod["main"]).layers() == ["depthwise", "pointwise"]
