"""HoistElementwise: element-wise steps behind views of a convolution run before these."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.passes.modules import evaluate, module
from tvm_sparse.passes.canonical.hoist_elementwise import HoistElementwise, reshaped
from tvm_sparse.passes.graph.rewrite import constant, op_name

X, WEIGHT = (2, 4, 5, 3), (8, 1, 1, 3)
BIAS = np.arange(2, dtype=np.float32)
PLACES = np.arange(2 * 8 * 10 * 2, dtype=np.float32).reshape(2, 8, 10, 2)


def tiles(y):
    """``(2, 4, 5, 8)`` --> ``(2, 8, 10, 2)``: features become pixels."""
    parts = relax.op.reshape(y, (2, 4, 5, 2, 2, 2))
    return relax.op.reshape(relax.op.permute_dims(parts, [0, 1, 3, 2, 4, 5]), (2, 8, 10, 2))


def behind(after):
    """Return a module that computes ``after`` a convolution."""

    def body(x, weight):
        layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI"}
        return after(relax.op.nn.conv2d(x, weight, **layouts))

    return module(body, X, WEIGHT)


def order(mod):
    (block,) = mod["main"].body.blocks
    return [op_name(b.value) for b in block.bindings if op_name(b.value)]


VIEWS = ["reshape", "permute_dims", "reshape"]
MOVED = {
    "relu": (lambda y: relax.op.nn.relu(tiles(y)), ["nn.relu"]),
    "bias": (lambda y: relax.op.add(tiles(y), constant(BIAS)), ["add"]),
    "left": (lambda y: relax.op.subtract(constant(BIAS), tiles(y)), ["subtract"]),
    "places": (lambda y: relax.op.multiply(tiles(y), constant(PLACES)), ["multiply"]),
    "clip": (lambda y: relax.op.clip(tiles(y), -1.0, 2.0), ["clip"]),
    "a slice": (
        lambda y: relax.op.add(relax.op.strided_slice(tiles(y), [1], [0], [7]), constant(BIAS)),
        ["add"],
    ),
    "several": (
        lambda y: relax.op.nn.relu(relax.op.add(tiles(relax.op.negative(y)), constant(BIAS))),
        ["negative", "add", "nn.relu"],
    ),
}
KEPT = {
    "two tensors": lambda y: relax.op.add(tiles(y), tiles(relax.op.exp(y))),
    "broadcast": lambda y: relax.op.add(
        relax.op.reshape(y, (1, 2, 4, 5, 8)), constant(np.ones((3, 1, 1, 1, 1), np.float32))
    ),
    "a small slice": lambda y: relax.op.nn.relu(relax.op.strided_slice(y, [1], [0], [2])),
    "not by element": lambda y: relax.op.nn.softmax(tiles(y)),
    "no convolution": lambda y: relax.op.nn.relu(tiles(relax.op.nn.softmax(y))),
}


def same_values(before, after):
    rng = np.random.default_rng(0)
    x, weight = (rng.integers(-4, 5, shape).astype(np.float32) for shape in (X, WEIGHT))
    np.testing.assert_array_equal(evaluate(after, x, weight), evaluate(before, x, weight))


@pytest.mark.grid
@pytest.mark.parametrize("name", MOVED)
def test_moved(name):
    after, steps = MOVED[name]
    before = behind(after)
    moved = HoistElementwise()(before)
    sliced = ["strided_slice"] * (name == "a slice")
    assert order(moved) == ["nn.conv2d", *steps, *VIEWS, *sliced]
    same_values(before, moved)


@pytest.mark.grid
@pytest.mark.parametrize("name", KEPT)
def test_kept(name):
    before = behind(KEPT[name])
    kept = HoistElementwise()(before)
    assert sorted(order(kept)) == sorted(order(before))
    assert order(kept)[-1] == order(before)[-1]
    same_values(before, kept)


@settings(deadline=None, max_examples=50)
@given(st.data())
def test_constants_are_broadcast_as_before(data):
    parts = data.draw(st.lists(st.integers(1, 4), min_size=2, max_size=6))
    cuts = st.lists(st.booleans(), min_size=len(parts), max_size=len(parts))

    def joined():
        shape = []
        for extent, cut in zip(parts, data.draw(cuts), strict=True):
            if cut or not shape:
                shape.append(extent)
            else:
                shape[-1] *= extent
        return tuple(shape)

    before, after = joined(), joined()
    extents = tuple(e if data.draw(st.booleans()) else 1 for e in after)
    value = np.arange(np.prod(extents)).reshape(extents)
    found = reshaped(value, before, after)
    full = np.broadcast_to(found, before).reshape(after)
    np.testing.assert_array_equal(full, np.broadcast_to(value, after))
