"""Reshapes of rows that are taken back, and those that are not."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.drop_reshapes import DropReshapes
from tvm_sparse.passes.graph.rewrite import constant

R = relax.op
RNG = np.random.default_rng(0)
W, B = (RNG.integers(-3, 4, shape).astype(np.float32) for shape in ((8, 16), (16,)))
X = RNG.integers(-3, 4, (2, 3, 8)).astype(np.float32)


def layer(x, rows=None):
    """Return a linear layer on rows, which may be scaled each by a number of its own."""
    y = R.matmul(R.reshape(x, (6, 8)), constant(W, "fc.weight"))
    y = y if rows is None else R.multiply(y, R.reshape(rows, (6, 1)))
    return R.nn.relu(R.add(y, constant(B, "fc.bias")))


@pytest.mark.grid
@pytest.mark.parametrize(
    "body",
    [
        lambda x: R.reshape(layer(x), (2, 3, 16)),
        lambda x: R.nn.gelu(R.reshape(layer(x, R.max(x, -1, keepdims=True)), (2, 3, 16))),
        lambda x: R.reshape(
            R.multiply(R.reshape(x, (6, 8)), relax.const(2.0, "float32")), (2, 3, 8)
        ),
    ],
)
def test_what_is_taken_back_goes(body):
    before = module(body, (2, 3, 8))
    after = DropReshapes()(before)
    assert "reshape" in operators(before) and "reshape" not in operators(after)
    assert (evaluate(after, X) == evaluate(before, X)).all()


def twice(x):
    y = layer(x)
    return R.add(R.reshape(y, (2, 3, 16)), R.reshape(R.negative(y), (2, 3, 16)))


@pytest.mark.grid
@pytest.mark.parametrize(
    "body",
    [
        layer,
        lambda x: R.reshape(layer(x), (3, 2, 16)),
        lambda x: R.reshape(layer(x), (2, 3, 4, 4)),
        lambda x: R.reshape(R.add(layer(x), constant(np.ones((6, 16), np.float32))), (2, 3, 16)),
        lambda x: R.reshape(R.nn.softmax(R.reshape(x, (6, 8)), 0), (2, 3, 8)),
        twice,
    ],
)
def test_other_reshapes_stay(body):
    before = module(body, (2, 3, 8))
    after = DropReshapes()(before)
    assert operators(after) == operators(before)
    assert (evaluate(after, X) == evaluate(before, X)).all()
