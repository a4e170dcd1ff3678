from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.whole_numbers import whole_numbers


def fused():
    """Numbers of the elements of an open tensor, in one loop over its axes in another order."""
    batch, rows = (tirx.Var(name, "int64") for name in ("batch", "rows"))
    x = te.placeholder((batch, rows, tirx.const(3, "int64")), "float32", "X")
    y = te.compute(x.shape, lambda b, r, c: x[b, r, c] * 2 + ((c - 2) // rows).astype("float32"))
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    b, r, c = schedule.get_loops(block)
    schedule.reorder(c, b, r)
    schedule.parallel(schedule.fuse(c, b, r))
    return schedule.mod["main"]


def by_extents(func, *kinds):
    found = [node for kind in kinds for node in nodes(func.body, kind)]
    return [node for node in found if not isinstance(node.b, tirx.IntImm)]


def test_places_are_divided_as_c_divides():
    func = whole_numbers(fused())
    (negative,) = by_extents(func, tirx.FloorDiv, tirx.FloorMod)
    assert "- T.int64(2)" in str(negative.a)
    assert by_extents(func, tirx.Div) and by_extents(func, tirx.Mod)


def divided(divisor=lambda n: n, dividend=lambda r, n: r):
    """Quotients of what is made of a loop's numbers by what is made of an open extent."""
    rows = tirx.Var("rows", "int64")
    x = te.placeholder((rows,), "float32", "X")
    y = te.compute(x.shape, lambda r: x[r] + (dividend(r, rows) // divisor(rows)).astype("float32"))
    return te.create_prim_func([x, y])


def without_blocks(func):
    """Return ``func`` with loop variables where its blocks have names for them."""
    module = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    lowered = (tvm.s_tir.transform.ConvertBlocksToOpaque(), tvm.s_tir.transform.LowerOpaqueBlock())
    return tvm.transform.Sequential(lowered)(module)["main"]


@pytest.mark.parametrize(
    ("divisor", "never_negative"),
    [
        (lambda n: n, True),
        (lambda n: n * (n + 2), True),
        (lambda n: (n + 1) // 2, True),
        (lambda n: tirx.max(n - 3, 1), True),
        (lambda n: n - 3, False),
        (lambda n: n * (n - 3), False),
        (lambda n: (n - 3) // 2 + 1, False),
    ],
)
def test_signs_of_divisors_are_known(divisor, never_negative):
    func = without_blocks(divided(divisor))
    found = by_extents(whole_numbers(func), tirx.Div)
    assert bool(found) == never_negative


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize(
    ("dividend", "never_negative"),
    [
        (lambda r, n: r * 16 + 3, True),
        (lambda r, n: tirx.max(tirx.min(r * 16 + 3, n - 1), 0), True),
        (lambda r, n: tirx.max(tirx.min(r * 16 + 3, n * n - 1), 0) // n % n, True),
        (lambda r, n: tirx.min(r * 16 + 3, n), True),
        (lambda r, n: tirx.min(r * 16 + 3, n - 1), False),
        (lambda r, n: tirx.min(r, n - 2), False),
        (lambda r, n: n - 1 - r, False),
        (lambda r, n: r + (n - 1), False),
        (lambda r, n: r * -1, False),
        (lambda r, n: r // (n - 3), False),
        (lambda r, n: tirx.max(r - 3, n - 5), False),
    ],
)
def test_signs_of_dividends_are_known(dividend, never_negative, blocks):
    func = divided(dividend=dividend)
    func = func if blocks else without_blocks(func)
    left = by_extents(whole_numbers(func), tirx.FloorDiv, tirx.FloorMod)
    assert bool(left) != never_negative


def test_a_shape_is_never_negative():
    """What an extent of a parameter is need not be shown."""
    rows = tirx.Var("rows", "int64")
    x = te.placeholder(((rows - 3) // 2 + 1, tirx.const(4, "int64")), "float32", "X")
    y = te.compute(x.shape, lambda r, c: x[r, c] + (c // x.shape[0]).astype("float32"))
    assert by_extents(whole_numbers(without_blocks(te.create_prim_func([x, y]))), tirx.Div)


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 5, 3), (3, 1, 3), (0, 4, 3), (2, 7, 3)])
def test_nothing_else_changes(shape):
    x = np.random.default_rng(0).integers(-9, 9, shape).astype("float32")
    results = []
    for func in (fused(), whole_numbers(fused())):
        out = tvm.runtime.tensor(np.full(shape, np.nan, "float32"))
        tvm.compile(func.with_attr("global_symbol", "main"), target="llvm")(
            tvm.runtime.tensor(x), out
        )
        results.append(out.numpy())
    np.testing.assert_array_equal(*results)
    if x.size:
        np.testing.assert_array_equal(results[0], x * 2 + (np.arange(3) - 2) // shape[1])
