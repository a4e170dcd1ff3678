"""The generic rule: pooling large enough to run on all threads."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax

from tests.passes.modules import evaluate, module
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.schedules.rule import ApplySchedules
from tvm_sparse.targets import parse_target

POOLS = {"max": relax.op.nn.max_pool2d, "avg": relax.op.nn.avg_pool2d}


@pytest.mark.parametrize("kind", POOLS)
@pytest.mark.parametrize("size", [16, 128])
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
