"""Simplify: each rewrite, and what must stay."""

from __future__ import annotations

import numpy as np
import pytest
import tvm_ffi
from tvm import relax, tirx

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.simplify import Simplify
from tvm_sparse.passes.graph.rewrite import constant

WEIGHT = np.arange(12, dtype=np.float32).reshape(4, 3)
R = relax.op


def take(x, index, axis):
    return R.take(x, relax.const(np.array(index, np.int64)), axis=axis)


@pytest.mark.grid
@pytest.mark.parametrize(
    "body, shape, expected",
    [
        (lambda x: R.squeeze(R.expand_dims(x, 0), 0), (2, 3), {}),
        (lambda x: R.reshape(x, (2, 3)), (2, 3), {}),
        (lambda x: R.reshape(R.reshape(x, (6,)), (3, 2)), (2, 3), {"reshape": 1}),
        (lambda x: R.broadcast_to(x, (2, 3)), (2, 3), {}),
        (lambda x: R.broadcast_to(x, (4, 3)), (1, 3), {"broadcast_to": 1}),
        (lambda x: R.clip(x, 0, 6), (2, 3), {"maximum": 1, "minimum": 1}),
        (lambda x: R.add(x, constant(np.zeros((1, 3), np.float32))), (2, 3), {}),
        (lambda x: R.add(x, constant(np.zeros((2, 3), np.float32))), (1, 3), {"add": 1}),
        (lambda x: take(x, 1, 0), (2, 3), {"strided_slice": 1, "reshape": 1}),
        (lambda x: take(x, 2, -1), (2, 3), {"strided_slice": 1, "reshape": 1}),
        (lambda x: take(x, [1, 0], 1), (2, 3), {"take": 1}),
        (lambda x: take(x, [0, 1], 1), (2, 3), {"take": 1}),
        (lambda x: take(x, [0, 1, 2], -1), (2, 3), {}),
        (lambda x: take(x, [[0, 1, 2, 3]], 0), (4,), {"reshape": 1}),
        (lambda x: R.split(x, 3, -1)[1], (2, 6), {"strided_slice": 1}),
        (lambda x: R.split(x, [1, 4], 1)[2], (2, 6), {"strided_slice": 1}),
        (lambda x: R.split(x, [], 1), (2, 6), {}),
    ],
)
def test_rewrites(body, shape, expected):
    before = module(body, shape)
    script = before.script()
    after = Simplify()(before)
    assert operators(after) == expected
    assert before.script() == script, "the pass wrote into its input"
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    assert (evaluate(after, x) == evaluate(before, x)).all()


def test_reshape_moves_above_a_linear_and_its_bias():
    def body(x):
        flat = R.matmul(R.reshape(x, (6, 4)), constant(WEIGHT))
        return R.reshape(R.add(flat, constant(WEIGHT[0])), (2, 3, 3))

    before = module(body, (2, 3, 4))
    after = Simplify()(before)
    assert operators(after) == {"matmul": 1, "add": 1}
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    np.testing.assert_allclose(evaluate(after, x), evaluate(before, x), rtol=1e-6)


def test_a_reshape_that_splits_features_stays_below():
    before = module(lambda x: R.reshape(R.matmul(x, constant(WEIGHT)), (2, 1, 3, 1)), (2, 4))
    assert operators(Simplify()(before)) == {"matmul": 1, "reshape": 1}


def test_symbolic_batch():
    n = tirx.Var("n", "int64")
    before = module(lambda x: R.reshape(x, (n, 4)), (n, 4))
    assert operators(Simplify()(before)) == {}


def test_idempotent():
    before = module(lambda x: R.clip(R.reshape(x, (6,)), 0, 6), (2, 3))
    once = Simplify()(before)
    assert tvm_ffi.structural_equal(Simplify()(once), once, map_free_vars=True)


@pytest.mark.parametrize("repeats", [(7, 6, 4, 2), (1, 6, 4, 1), (3, 1, 1, 2, 1), (2, 2), (1, 1)])
def test_tiles_are_broadcasts(repeats):
    """TVM's definition is miscompiled for AVX-512."""
    shape = (2, 3, 4, 5) if len(repeats) > 2 else (4, 5)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    after = Simplify()(module(lambda x: relax.op.tile(x, list(repeats)), shape))
    assert "tile" not in operators(after)
    np.testing.assert_array_equal(evaluate(after, x), np.tile(x, repeats))
