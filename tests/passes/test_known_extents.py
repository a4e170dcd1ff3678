"""What is said of expressions of open extents holds at each of their values."""

from __future__ import annotations

import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import tirx
from tvm.sym import Analyzer

from tvm_sparse.passes.graph.known_extents import KnownExtents

N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def number(value):
    return tirx.const(value, "int64")


def joined(parts):
    by = st.integers(1, 5).map(number)
    return st.one_of(
        st.builds(tirx.min, parts, parts),
        st.builds(tirx.max, parts, parts),
        st.builds(lambda a, b: a + b, parts, parts),
        st.builds(lambda a, b: a - b, parts, parts),
        st.builds(lambda a, b: a * b, parts, st.integers(-3, 3).map(number)),
        st.builds(tirx.floordiv, parts, by),
        st.builds(tirx.floormod, parts, by),
    )


EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from([N, M]), st.integers(-6, 6).map(number)), joined, max_leaves=6
)


def value(expr, n, m):
    known = {N: number(n), M: number(m)}
    placed = tvm_ffi.structural_map(expr, (tirx.Var, lambda v: known.get(v, v)))
    return int(Analyzer().simplify(placed))


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS, st.integers(0, 4), st.integers(0, 9), st.booleans())
def test_what_is_known_holds(one, other, low, more, bounded):
    known = KnownExtents({N: (low, low + more), M: (1, 8 if bounded else None)})
    simple, ordered = known.simplify(one), known.ordered(one, other)
    for n in {low, low + more // 2, low + more}:
        for m in (1, 2, 3, 8):
            assert value(simple, n, m) == value(one, n, m)
            assert not ordered or value(one, n, m) <= value(other, n, m)


def test_extremes_are_settled():
    known = KnownExtents({N: (3, 40), M: (1, None)})
    settled = {
        tirx.min(N // 2, N): "n // T.int64(2)",
        tirx.max(N - 3, 0) + 1: "n - T.int64(2)",
        tirx.min((M + 1) // 2, M): "(m + T.int64(1)) // T.int64(2)",
        tirx.min(tirx.max(N - 1, 0), N) - tirx.min(0, N): "n - T.int64(1)",
        tirx.max(N - 5, 0): "T.max(n - T.int64(5), T.int64(0))",
        tirx.min(N, M): "T.min(n, m)",
    }
    assert {str(known.simplify(e)) for e in settled} == set(settled.values())


def test_one_value_in_a_range_is_a_number():
    known = KnownExtents({N: (1, 128), M: (1, None)})
    padded = N + tirx.floormod(-N, 128)
    blocks = tirx.floordiv(padded, 128)
    values = {padded: 128, blocks: 1, blocks + tirx.min(N, 0): 1, N - N: 0}
    for expr, value in values.items():
        assert str(known.simplify(expr)) == f"T.int64({value})"
    for expr in (tirx.floordiv(N, 128), tirx.floordiv(M + 127, 128), tirx.min(M, 128)):
        assert str(known.simplify(expr)) == str(expr)
    assert str(known.simplify(M * blocks)) == "m"
