"""What TVM raises in a pass is an error of ours that names what failed."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax

from tests.passes.modules import module
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.passes.graph.failures import applied
from tvm_sparse.passes.graph.rewrite import op_name, rewrite

BEFORE = module(lambda x: relax.op.nn.relu(relax.op.exp(relax.op.nn.relu(x))), (2, 3))


def _failing_on(name: str, error: Exception):
    def rule(_sweep, call):
        if op_name(call) == name:
            raise error
        return None

    return lambda mod: rewrite(mod, rule)


def test_the_operator_that_fails_alone_is_named():
    with pytest.raises(
        UnsupportedError, match=r"operator 'exp' of float32\[2, 3\]: cannot be lowered \(no luck\)"
    ):
        applied(_failing_on("exp", ValueError("no luck\nat all")), BEFORE, "lowered")


def test_errors_of_ours_pass_through():
    with pytest.raises(InputError, match="layer 'a'"):
        applied(_failing_on("exp", InputError("layer 'a'", "is odd")), BEFORE, "lowered")


def test_a_failure_of_no_part_is_the_models():
    def step(mod: tvm.IRModule) -> None:
        if mod.same_as(BEFORE):
            raise RuntimeError("only together")

    with pytest.raises(UnsupportedError, match="model: cannot be built"):
        applied(step, BEFORE, "built")


def test_a_step_that_works_returns_its_result():
    assert applied(lambda mod: mod, BEFORE, "lowered").same_as(BEFORE)
