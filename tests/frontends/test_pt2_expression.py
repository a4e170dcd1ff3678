"""Size expressions: what exporters write, and nothing that runs code or takes for ever."""

from __future__ import annotations

import time

import pytest

from tvm_sparse.frontends.files.pt2_expression import is_expression


@pytest.mark.parametrize(
    "text",
    [
        "s77",
        "-s0",
        "2*s0 + FloorDiv(s1, 4) - Max(1, u3)",
        "Mul(Integer(2), Symbol('s77', positive=True, integer=True))",
        "s0**2",
        "Pow(Symbol('s0'), Integer(2))",
        "PowByNatural(s0, 2)",
        "Pow(s0, -1)",
        "Pow(s0, Rational(1, 2))",
        "(s0**2 + 1)**2",
        "Eq(s0, 3) & Ne(s1, 4)",
        "s0 != 3",
        "1.5*s0/3 % 7",
        "TruncToInt(Mul(Float('1.5', precision=53), ToFloat(Symbol('s77', integer=True))))",
        "Float('-2.0e-5', precision=53)",
        " + ".join(f"s{n}" for n in range(300)),
    ],
)
def test_an_exporters_expressions(text):
    assert is_expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9**9",
        "9**s0",
        "((9**16)**16)**16",
        "Pow(9, Pow(9, Pow(9, 9)))",
        "Pow(9, Integer(999999999))",
        "Pow(9, 9, 9)",
        "Pow(9, Float('99999', precision=53))",
        "TruncToInt(Float('1e99', precision=53))",
        "Float('1.5', precision=99999999)",
        "Float('os.system', precision=53)",
        "Pow(9, exp=9)",
        "FloatPow(9, 99999)",
        "99999999!",
        "9!!",
        "1 << 9999999999",
        "9" * 30,
        "9" * 6000,
        "(" * 300 + "1" + ")" * 300,
        "-" * 4000 + "1",
        "s0 + " * 50_000 + "s0",
        "__import__('os')",
        "open('x')",
        "s0.__class__",
        "s0[0]",
        "s0 if 1 else s1",
        "lambda: 1",
        "Symbol('os.system')",
        "Symbol('s0', evil=True)",
        "s0\nimport os",
        "x",
        "",
    ],
    ids=range(31),
)
def test_anything_else(text):
    begin = time.monotonic()
    assert not is_expression(text)
    assert time.monotonic() - begin < 5
