"""LowerConcatenate: joined tensors are exact, and read in whole vectors."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relax, tirx

from tests.passes.modules import evaluate, module, operators
from tvm_sparse.base.targets import parse_target
from tvm_sparse.passes.lower.lower_concatenate import LowerConcatenate
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.schedules.rule import ApplySchedules

PIECES = {"grown": [64, 32, 32], "halves": [24, 40], "odd": [3, 61], "one": [1, 1, 5, 9]}


def joined(axis: int, *shapes: tuple) -> tuple:
    """Return a module that joins inputs and adds one, and the same lowered and scheduled."""
    before = module(lambda *xs: relax.op.add(relax.op.concat(xs, axis), relax.const(1.0)), *shapes)
    lowered = relax.transform.LegalizeOps()(LowerConcatenate()(before))
    target = parse_target("cpu").target
    fused = relax.transform.FuseTIR()(
        relax.transform.FuseOps()(relax.transform.AnnotateTIROpPattern()(lowered))
    )
    return before, ApplySchedules(target, rules_for(target))(fused)


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("pieces", PIECES)
def test_values(pieces, axis):
    shapes = [(2, *((c, 4) if axis == 1 else (4, c))) for c in PIECES[pieces]]
    before, after = joined(axis, *shapes)
    assert operators(LowerConcatenate()(before)) == {"call_tir": 1, "add": 1}
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    inputs[0].flat[:2] = np.nan, np.inf
    expected = np.concatenate(inputs, axis) + np.float32(1)
    np.testing.assert_array_equal(evaluate(after, *inputs), expected)


@pytest.mark.parametrize(("pieces", "lanes"), [("grown", 32), ("halves", 8)])
def test_no_vector_meets_two_pieces(pieces, lanes):
    _, after = joined(-1, *((2, 4, c) for c in PIECES[pieces]))
    assert f"T.vectorized(T.int64({lanes}))" in after.script()


def test_symbolic_extents():
    n = tirx.Var("n", "int64")
    _, after = joined(-1, (n, 8), (n, 16))
    x, y = np.ones((3, 8), np.float32), np.zeros((3, 16), np.float32)
    np.testing.assert_array_equal(evaluate(after, x, y), np.concatenate([x, y], 1) + 1)
    before = module(lambda *xs: relax.op.concat(xs, 0), (n, 8), (n, 8))
    assert operators(LowerConcatenate()(before)) == {"concat": 1}
