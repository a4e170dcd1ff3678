"""Which convolutions lie between transpositions."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from tvm_sparse.passes import channels_first
from tvm_sparse.passes.channels_first import before_transpositions


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


BIAS = relax.const([1.0] * 64, "float32")


@pytest.mark.parametrize(
    ("after", "found"),
    [
        (turned, 1),
        (lambda y: turned(relax.op.nn.relu(y)), 1),
        (lambda y: turned(relax.op.nn.relu(relax.op.add(y, BIAS))), 1),
        (lambda y: relax.op.permute_dims(y, [0, 3, 2, 1]), 0),
        (lambda y: turned(relax.op.add(y, relax.op.nn.relu(y))), 0),
        (lambda y: turned(relax.op.nn.softmax(y)), 0),
        (relax.op.nn.relu, 0),
    ],
)
def test_results_that_are_transposed(after, found):
    mod = relax.transform.Normalize()(module(after))
    assert len(before_transpositions(mod)) == found


def test_results_that_are_read_twice():
    assert not before_transpositions(module(relax.op.nn.relu, twice=True))


def test_axes_take_each_other_back():
    first, last = channels_first.last_to_first(2), channels_first.first_to_last(2)
    assert [first[axis] for axis in last] == [0, 1, 2, 3]
