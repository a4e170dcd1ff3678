"""PoolFirst: pooling and 1x1 convolutions change places where both are linear and alone."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.passes.modules import evaluate, module
from tvm_sparse.passes.canonical.pool_first import PoolFirst

RNG = np.random.default_rng(0)
POOLS = {
    "even": {"pool_size": 2, "strides": 2},
    "overlapping": {"pool_size": 3, "strides": 2},
    "padded": {"pool_size": 3, "strides": 2, "padding": 1, "count_include_pad": True},
    "padded, not counted": {"pool_size": 3, "strides": 2, "padding": 1},
    "ceil": {"pool_size": 2, "strides": 2, "ceil_mode": True},
}


def network(pool, conv=None, taps=1, kind="avg", twice=False):
    """Return a module: convolution of 6 to 4 channels, then pooling."""
    weight = relax.const(RNG.standard_normal((4, 6, taps, taps)).astype(np.float32))
    pooling = {"avg": relax.op.nn.avg_pool2d, "max": relax.op.nn.max_pool2d}[kind]

    def body(x):
        builder = relax.BlockBuilder.current()
        y = builder.emit(relax.op.nn.conv2d(x, weight, **(conv or {})))
        pooled = builder.emit(pooling(y, **pool))
        return relax.op.add(pooled, relax.op.mean(y, [2, 3], keepdims=True)) if twice else pooled

    return module(body, (2, 6, 9, 7))


def order(mod):
    """Return the names of convolution and pooling as they are called."""
    return [n for n in mod.script().replace("R.nn.", " ").replace("(", " ").split() if "2d" in n]


@pytest.mark.grid
@pytest.mark.parametrize("pool", POOLS)
def test_moved(pool):
    before = network(POOLS[pool])
    after = PoolFirst()(before)
    assert order(before) == ["conv2d", "avg_pool2d"]
    assert order(after) == ["avg_pool2d", "conv2d"]
    x = RNG.standard_normal((2, 6, 9, 7)).astype(np.float32)
    np.testing.assert_allclose(evaluate(after, x), evaluate(before, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "case",
    [
        {"pool": POOLS["even"], "taps": 3},
        {"pool": POOLS["even"], "conv": {"strides": 2}},
        {"pool": POOLS["even"], "conv": {"padding": 1}},
        {"pool": POOLS["even"], "kind": "max"},
        {"pool": POOLS["even"], "twice": True},
        {"pool": {"pool_size": 2, "strides": 1}},
    ],
    ids=["taps", "strided", "padded", "max", "read twice", "no smaller"],
)
def test_left_alone(case):
    before = network(**case)
    assert order(PoolFirst()(before)) == order(before)
