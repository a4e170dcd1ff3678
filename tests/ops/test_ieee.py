"""Expressions keep their meaning through TVM's simplifier."""

from __future__ import annotations

import pytest
from tvm import sym, tirx

from tvm_sparse.ops import ieee

X, Y = tirx.Var("x", "float32"), tirx.Var("y", "float32")


@pytest.mark.parametrize(
    "expression",
    [
        ieee.multiply(X, tirx.const(0, "float32")),
        ieee.divide(tirx.const(0, "float32"), X),
        ieee.subtract(X, X),
        ieee.subtract(X + Y, Y),
        ieee.equal(X, X),
        ieee.not_equal(X, X),
        ieee.negation(X < Y),
        ieee.largest(X, Y),
        ieee.smallest(tirx.const(0, "float32"), X),
    ],
    ids=str,
)
def test_the_simplifier_leaves_an_expression_of_its_variables(expression):
    found = sym.Analyzer().simplify(expression)
    assert tirx.analysis.undefined_vars(found)
    assert str(found) != "x"


def test_the_simplifier_does_what_these_expressions_guard_against():
    zero = tirx.const(0, "float32")
    assert not tirx.analysis.undefined_vars(X * zero)
    assert str(sym.Analyzer().simplify(X - X)) == str(zero)
