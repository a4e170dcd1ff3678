"""The generic rule: pooling large enough to run on all threads."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax, te, topi

from tests.passes.modules import evaluate, module
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.tensors.reshape import reshape
from tvm_sparse.passes.lower.definitions import DEFINITIONS
from tvm_sparse.schedules.build import build_function, rules_for
from tvm_sparse.schedules.cpu.generic import GenericRule
from tvm_sparse.schedules.cpu.overlap_tiles import OverlapTiles
from tvm_sparse.schedules.rule import ApplySchedules

POOLS = {"max": relax.op.nn.max_pool2d, "avg": relax.op.nn.avg_pool2d}


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("size", [8, 128])
def test_pooling(kind, size):
    before = module(
        lambda x: POOLS[kind](x, pool_size=(2, 2), strides=(2, 2), layout="NHWC"),
        (1, size, size, 64),
    )
    lowered = relax.transform.LegalizeOps()(before)
    target = parse_target("cpu").target
    after = ApplySchedules(target, rules_for(target))(lowered)
    assert ("T.parallel" in after.script()) == (size == 128)
    x = np.random.default_rng(0).standard_normal((1, size, size, 64)).astype(np.float32)
    windows = x.reshape(1, size // 2, 2, size // 2, 2, 64)
    expected = windows.max((2, 4)) if kind == "max" else windows.mean((2, 4))
    np.testing.assert_allclose(evaluate(after, x), expected, atol=1e-6)


def test_one_step_is_no_work_for_threads():
    """A global mean over few channels has many points, but one vector of results."""
    before = module(lambda x: relax.op.mean(x, [1, 2]), (1, 128, 128, 16))
    target = parse_target("cpu").target
    after = ApplySchedules(target, rules_for(target))(relax.transform.LegalizeOps()(before))
    assert "T.parallel" not in after.script()
    x = np.random.default_rng(0).standard_normal((1, 128, 128, 16)).astype(np.float32)
    np.testing.assert_allclose(evaluate(after, x), x.mean((1, 2)), atol=1e-5)


def lowered(body, *shapes):
    target = parse_target("cpu").target
    mod = relax.transform.LegalizeOps(DEFINITIONS)(module(body, *shapes))
    return ApplySchedules(target, rules_for(target))(mod)


AXES = [(0,), (1,), (3,), (2, 3), (0, 2), (1, 2, 3), (0, 1, 2, 3), (0, 3)]
SHAPES = [(2, 3, 4, 16), (2, 3, 7, 7), (1, 6, 31, 33), (3, 2, 5, 37), (1, 16, 8, 8), (2, 4, 96, 80)]


@pytest.mark.grid
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("axes", AXES)
def test_reductions_over_any_axes(axes, shape):
    x = np.random.default_rng(0).integers(-4, 5, shape).astype(np.float32)
    after = lowered(lambda v: relax.op.add(relax.op.sum(v, axes), relax.op.max(v, axes)), shape)
    found = OverlapTiles()(after)
    np.testing.assert_array_equal(evaluate(found, x), x.sum(axes) + x.max(axes))


@pytest.mark.grid
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("other", [(1, 1, 1, 1), "row", "channels", "same"])
def test_elementwise(other, shape):
    sizes = {"row": shape[-1:], "channels": (shape[1], 1, 1), "same": shape}
    other = sizes.get(other, other)
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-4, 5, s).astype(np.float32) for s in (shape, other))
    after = OverlapTiles()(lowered(lambda a, b: relax.op.nn.relu(relax.op.add(a, b)), shape, other))
    np.testing.assert_array_equal(evaluate(after, x, y), np.maximum(x + y, 0))
    assert "T.vectorized" in after.script()


def test_planes_are_one_loop_of_whole_vectors():
    after = lowered(relax.op.add, (1, 8, 12, 12), (8, 1, 1))
    assert "T.vectorized(T.int64(16))" in after.script()


def test_halves_of_planes_are_one_loop_of_whole_vectors():
    """Both halves are read, one from a later channel on: memory has each of them side by side."""

    def gated(x):
        halves = (relax.op.strided_slice(x, [1], [c], [c + 16]) for c in (0, 16))
        return relax.op.multiply(next(halves), relax.op.sigmoid(next(halves)))

    target = parse_target("cpu").target
    lowered = relax.transform.LegalizeOps(DEFINITIONS)(module(gated, (1, 32, 7, 7)))
    fused = relax.transform.FuseTIR()(
        relax.transform.FuseOps()(relax.transform.AnnotateTIROpPattern()(lowered))
    )
    after = ApplySchedules(target, rules_for(target))(fused)
    assert "T.vectorized(T.int64(16))" in after.script()
    x = np.random.default_rng(0).standard_normal((1, 32, 7, 7)).astype(np.float32)
    expected = x[:, :16] / (1 + np.exp(-x[:, 16:]))
    np.testing.assert_allclose(evaluate(after, x), expected, rtol=1e-5)


def test_positions_of_extremes_keep_vectors():
    x = np.random.default_rng(0).integers(0, 9, (5, 96)).astype(np.float32)
    x[1, 7] = np.nan
    after = lowered(lambda v: relax.op.argmax(v, -1), (5, 96))
    assert "T.vectorized" in after.script()
    np.testing.assert_array_equal(evaluate(after, x), x.argmax(-1))


def test_a_whole_sum_beside_another_block():
    after = lowered(lambda v: relax.op.multiply(relax.op.mean(v), v), (4, 64))
    x = np.random.default_rng(0).integers(-4, 5, (4, 64)).astype(np.float32)
    np.testing.assert_allclose(evaluate(after, x), x.mean() * x, rtol=1e-6)


@pytest.mark.parametrize("width", [32, 36])
@pytest.mark.parametrize("move", [topi.reshape, reshape])
def test_outer_products_that_are_reshaped_keep_vectors(move, width):
    x = te.placeholder((8, width), name="x")
    pairs = te.compute((8, width, width), lambda i, j, k: x[i, j] * x[i, k], name="pairs")
    func = te.create_prim_func([x, move(pairs, (8, width * width))])
    target = parse_target("cpu").target
    script = GenericRule().apply(func, target, tunable=False).mod.script()
    assert "T.vectorized" in script
    assert "% T.int64(36)" not in script  # 36 are no whole vectors of the new axis
    values = np.random.default_rng(0).standard_normal((8, width)).astype(np.float32)
    found = tvm.runtime.tensor(np.zeros((8, width * width), np.float32))
    build_function(func, target)["main"](tvm.runtime.tensor(values), found)
    expected = (values[:, :, None] * values[:, None]).reshape(8, -1)
    np.testing.assert_array_equal(found.numpy(), expected)
