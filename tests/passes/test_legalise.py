"""Operators become loops; where a definition fails, its error comes and no word of TVM's log."""

from __future__ import annotations

import pytest
from tvm import relax, te, tirx

from tests.passes.modules import module, operators
from tvm_sparse.passes.lower.legalise import Legalise

BEFORE = module(lambda x: relax.op.nn.relu(relax.op.exp(x)), (2, 3))


def test_own_definitions_come_before_tvms():
    def define(builder, call):
        return builder.call_te(_doubled, call.args[0], primfunc_name_hint="twice")

    after = Legalise({"relax.exp": define})(BEFORE)
    assert operators(after) == {"call_tir": 2}
    assert "twice" in {name.name_hint for name in after.get_global_vars()}


def _doubled(x):
    return te.compute(x.shape, lambda *i: x(*i) * tirx.const(2, "float32"))


def test_a_definition_that_fails_is_silent(capfd):
    def fail(builder, call):
        raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        Legalise({"relax.exp": fail})(BEFORE)
    assert capfd.readouterr().err == ""
