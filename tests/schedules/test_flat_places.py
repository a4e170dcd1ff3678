from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from tvm_sparse.ops.emit import unravel
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.flat_places import flat_places
from tvm_sparse.schedules.whole_numbers import whole_numbers

N, H, W, ROWS = (tirx.Var(name, "int64") for name in ("n", "h", "w", "rows"))
CHANNELS = 3


def gathered(places, own=False):
    """Return a function that reads row ``r`` of open planes, or of its own copy of them."""
    x = te.placeholder((N, H, W, tirx.const(CHANNELS, "int64")), "float32", "X")
    read = te.compute(x.shape, lambda *i: x[i] * 1, name="Z") if own else x
    y = te.compute((ROWS, x.shape[-1]), lambda r, c: read[(*places(r, N, H, W), c)] + 1, name="Y")
    return te.create_prim_func([x, y])


def divisions(func):
    """Return the divisions by open extents in what is read and stored."""
    accesses = [*nodes(func.body, tvm.ir.TensorLoad), *nodes(func.body, tirx.BufferStore)]
    kinds = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)
    found = [d for a in accesses for i in a.indices for kind in kinds for d in nodes(i, kind)]
    return [node for node in found if not isinstance(node.b, tirx.IntImm)]


def check(func, places, shape, rows):
    """Compare what ``func`` reads with the places in memory."""
    x = np.arange(np.prod(shape) * CHANNELS, dtype="float32").reshape(*shape, CHANNELS)
    out = tvm.runtime.tensor(np.full((rows, CHANNELS), np.nan, "float32"))
    tvm.compile(func.with_attr("global_symbol", "main"), target="llvm")(tvm.runtime.tensor(x), out)
    _n, h, w = shape
    read = [(a * h + b) * w + c for a, b, c in (places(r, *shape) for r in range(rows))]
    np.testing.assert_array_equal(out.numpy(), x.reshape(-1, CHANNELS)[read] + 1)


def by_unravel(r, n, h, w):
    return unravel(r, (n, h, w))


@pytest.mark.parametrize("first", [lambda func: func, whole_numbers], ids=["floor", "truncated"])
@pytest.mark.parametrize(
    "places",
    [
        by_unravel,
        lambda r, n, h, w: [r // (h * w), r % (h * w) // w, r % w],
        lambda r, n, h, w: [r // (w * h), r // w % h, r % w],
    ],
)
def test_parts_of_a_number_are_the_number(places, first):
    func = first(gathered(places))
    flat = flat_places(func)
    assert divisions(func) and not divisions(flat)
    for shape in ((1, 1, 1), (2, 3, 5), (3, 1, 4)):
        check(flat, places, shape, int(np.prod(shape)))


@pytest.mark.parametrize(
    "places",
    [
        lambda r, n, h, w: [r // w // h, r // w % h, r % w + 1],
        lambda r, n, h, w: [r // w // h, r // w % h + 1, r % w],
        lambda r, n, h, w: [r // h // w, r // h % w, r % h],
        lambda r, n, h, w: [r // w // h, r // w % h, (r + 1) % w],
        lambda r, n, h, w: [r // (h * h), r % (h * w) // w, r % w],
        lambda r, n, h, w: [r // (h * w), r % (h * h) // w, r % w],
        lambda r, n, h, w: [r // w // h % n, r // w % h, r % w],
        lambda r, n, h, w: [r // w % n, r // w % h, r % w],
    ],
)
def test_other_places_stay(places):
    flat = flat_places(gathered(places))
    assert divisions(flat)
    check(flat, places, (2, 3, 5), 16)


def test_what_begins_again_stays():
    """Rows behind the last are the first ones: the remainder of the first axis is no digit."""
    places = lambda r, n, h, w: [r // w // h % n, r // w % h, r % w]  # noqa: E731
    check(flat_places(gathered(places)), places, (2, 3, 5), 70)


def test_tensors_of_the_function_itself_stay():
    """TVM finds their extents in their indices."""
    func = gathered(by_unravel, own=True)
    assert len(divisions(flat_places(func))) == len(divisions(func)) > 0


def test_results_are_stored_by_their_number():
    x = te.placeholder((N, H, W, tirx.const(CHANNELS, "int64")), "float32", "X")
    schedule = tvm.s_tir.Schedule(
        te.create_prim_func([x, te.compute(x.shape, lambda *i: x[i] + 1)])
    )
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    schedule.fuse(*schedule.get_loops(block)[:3])
    steps = (tvm.s_tir.transform.ConvertBlocksToOpaque(), tvm.s_tir.transform.LowerOpaqueBlock())
    func = tvm.transform.Sequential(steps)(schedule.mod)["main"]
    flat = flat_places(func)
    assert divisions(func) and not divisions(flat)
    x = np.random.default_rng(0).integers(-9, 9, (2, 3, 5, CHANNELS)).astype("float32")
    out = tvm.runtime.tensor(np.full(x.shape, np.nan, "float32"))
    tvm.compile(flat, target="llvm")(tvm.runtime.tensor(x), out)
    np.testing.assert_array_equal(out.numpy(), x + 1)
