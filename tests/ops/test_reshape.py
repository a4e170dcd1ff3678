"""Reshapes, group of axes by group of axes, move no element."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from tvm_sparse.ops.tensors.reshape import divides_by_symbols, matching, reshape

SHAPES = [
    ((6,), (2, 3)),
    ((2, 3, 4), (6, 4)),
    ((4, 6), (8, 3)),
    ((2, 1, 3), (1, 3, 2, 1)),
    ((1, 1), (1,)),
    ((12,), (12, 1)),
    ((4, 9, 5), (2, 6, 3, 5)),
]


@pytest.mark.parametrize(("before", "after"), SHAPES)
def test_no_element_moves(before, after):
    x = te.placeholder(before, name="x", dtype="float32")
    func = te.create_prim_func([x, reshape(x, after)])
    run = tvm.compile(func, target="llvm")
    values = np.arange(np.prod(before), dtype="float32").reshape(before)
    found = tvm.runtime.tensor(np.zeros(after, "float32"))
    run(tvm.runtime.tensor(values), found)
    np.testing.assert_array_equal(found.numpy(), values.reshape(after))


def test_axes_that_stay_are_groups_of_their_own():
    assert matching((2, 64, 128), (2, 8, 8, 128)) == [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]
    assert matching((4, 6), (8, 3)) == [((0, 1), (0, 1))]


@given(st.lists(st.integers(1, 4), max_size=5), st.data())
def test_groups_hold_as_many_elements_before_and_after(extents, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(extents)))))
    pairs = zip([0, *cuts], [*cuts, len(extents)], strict=True)
    after = [int(np.prod(extents[a:b])) for a, b in pairs]
    groups = matching(extents, after)
    for old, new in groups:
        assert np.prod([extents[a] for a in old]) == np.prod([after[a] for a in new])
    assert [a for old, _ in groups for a in old] == [a for a, e in enumerate(extents) if e != 1]
    assert [a for _, new in groups for a in new] == [a for a, e in enumerate(after) if e != 1]


N, M = tirx.Var("n", "int64"), tirx.Var("m", "int64")


def test_open_extents_are_matched_however_they_are_computed():
    assert matching((N, 64), (N, 4, 16)) == [((0,), (0,)), ((1,), (1, 2))]
    assert matching((N, 4, M, 16), (N * 4, M, 16)) == [((0, 1), (0,)), ((2,), (1,)), ((3,), (2,))]
    assert matching((2 * N - 1, N), (N, 2 * N - 1)) == [((0, 1), (0, 1))]
    assert matching((N, 1, 6), (6, N)) == [((0, 2), (0, 1))]


def test_what_divides_by_an_open_extent():
    assert not divides_by_symbols((N, 4, M, 16), (N * 4, M, 16))
    assert divides_by_symbols((N, M, 64), (N * M, 64))
    assert divides_by_symbols((2 * N - 1, N), (N, 2 * N - 1))
    assert not divides_by_symbols((N * M, 64), (N, M, 64))


OPEN = [
    lambda n, m: ((n, 6), (n, 2, 3)),
    lambda n, m: ((n, m, 4), (n * m, 4)),
    lambda n, m: ((n * m, 4), (n, 2 * m, 2)),
    lambda n, m: ((n, m), (m, n)),
    lambda n, m: ((n, 4, m), (2 * n, m, 2)),
    lambda n, m: ((2 * n - 1, n), (n, 2 * n - 1)),
    lambda n, m: ((n, 1, m), (1, n * m)),
]


@pytest.mark.parametrize("shapes", OPEN)
def test_no_element_of_open_extents_moves(shapes):
    before, after = shapes(N, M)
    sizes = te.placeholder((N, M), name="sizes", dtype="float32")  # tells what both extents are
    x = te.placeholder(before, name="x", dtype="float32")
    run = tvm.compile(te.create_prim_func([sizes, x, reshape(x, after)]), target="llvm")
    for n, m in ((1, 1), (3, 5), (7, 2)):
        here, there = shapes(n, m)
        values = np.arange(np.prod(here), dtype="float32").reshape(here)
        found = tvm.runtime.tensor(np.zeros(there, "float32"))
        run(tvm.runtime.tensor(np.zeros((n, m), "float32")), tvm.runtime.tensor(values), found)
        np.testing.assert_array_equal(found.numpy(), values.reshape(there))
