"""What TVM raises in a pass is an error of ours that names what failed."""

from __future__ import annotations

import pytest
import tvm
from tvm import relax, tirx
from tvm.target import Target

from tests.passes.modules import module
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.passes.finish.assemble import assemble
from tvm_sparse.passes.graph.failures import applied
from tvm_sparse.passes.graph.rewrite import op_name, rewrite

BEFORE = module(lambda x: relax.op.nn.relu(relax.op.exp(relax.op.nn.relu(x))), (2, 3))


def _failing_on(name: str, error: Exception):
    def rule(_rewriter, call):
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


def _unlowered():
    """``relu`` in loops, and ``concat`` of extents that only whoever calls knows to be equal."""
    h = tirx.Var("h", "int64")
    made = module(
        lambda x, y: relax.op.concat([x, relax.op.nn.relu(y)], 1),
        (2, 3, h),
        (2, 3, 1),
    )
    return relax.transform.LegalizeOps()(made)


def test_an_operator_without_loops_names_the_extents_that_were_not_compared():
    with pytest.raises(
        UnsupportedError,
        match=r"operator 'concat' of .*'h' and '1' cannot be compared; expected extents",
    ):
        applied(lambda m: assemble(m, Target("llvm"), []), _unlowered(), "built")


def test_extents_that_are_broadcast_are_not_named():
    h, w = (tirx.Var(name, "int64") for name in "hw")
    made = module(relax.op.multiply, (h, 2, 4), (w, 1, 1))
    with pytest.raises(UnsupportedError, match="'h' and 'w' cannot be compared"):
        applied(lambda m: assemble(m, Target("llvm"), []), made, "built")


def test_loops_that_can_be_built_are_not_blamed():
    """A step that wants a ``main`` of Relax, as the last one does, gets one for each function."""
    lowered = relax.transform.LegalizeOps()(BEFORE)

    def step(mod: tvm.IRModule) -> None:
        assert isinstance(mod["main"], relax.Function)
        if any(name.name_hint == "tir_exp" for name in mod.get_global_vars()):
            raise RuntimeError("no luck")

    with pytest.raises(UnsupportedError, match=r"function 'tir_exp': cannot be built \(no luck\)"):
        applied(step, lowered, "built")
