"""Loops over extremes of open extents are cut off where they end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
from tvm import s_tir, te, tirx

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse.base.targets import parse_target
from tvm_sparse.schedules.build import build_context
from tvm_sparse.schedules.opaque_bounds import OpaqueBounds

BEHIND = 64
"""Elements behind a result, which nobody writes."""


def _tiled(extent):
    """Return ``y = x + 1`` for as many elements, in tiles that a loop partition cuts off."""
    symbol = tirx.Var("s", "int64")
    x = te.placeholder((extent(symbol),), "float32", name="x")
    y = te.compute(x.shape, lambda i: x[i] + 1.0, name="y")
    sch = s_tir.Schedule(te.create_prim_func([symbol, x, y]))
    (loop,) = sch.get_loops(sch.get_sblock("y"))
    tile, _, lane = sch.split(loop, [None, 2, 16])
    sch.parallel(tile)
    sch.annotate(tile, "pragma_loop_partition_hint", True)
    sch.vectorize(lane)
    return sch.mod


def _aligned(size):
    room = np.zeros(4 * size + 64, np.uint8)
    first = -room.ctypes.data % 64
    return room[first : first + 4 * size].view(np.float32)


def _frames(s):
    most = tirx.floordiv(tirx.max(s, 256) + 255, 256) + 4
    return tirx.min(tirx.max(tirx.floordiv(s, 256), 1), most)


@pytest.mark.parametrize(
    ("extent", "count"),
    [
        (_frames, lambda s: max(s // 256, 1)),
        (lambda s: tirx.max(tirx.floordiv(s, 256), 3), lambda s: max(s // 256, 3)),
        (lambda s: tirx.min(s, 40), lambda s: min(s, 40)),
    ],
)
def test_nothing_is_stored_beyond(extent, count):
    target = parse_target("cpu").target
    with build_context(target):
        built = tvm.compile(OpaqueBounds()(_tiled(extent)), target=target)
    for size in (1, 100, 512, 5000, 20000):
        n = count(size)
        x, y = _aligned(n + BEHIND), _aligned(n + BEHIND)
        x[:] = np.arange(n + BEHIND)
        built["main"](size, tvm.runtime.from_dlpack(x[:n]), tvm.runtime.from_dlpack(y[:n]))
        np.testing.assert_array_equal(y[:n], x[:n] + 1)
        assert not y[n:].any()


def test_fixed_extents_stay():
    func = _tiled(lambda _: 40)
    tvm.ir.assert_structural_equal(OpaqueBounds()(func), func)


def test_numbers_are_left_alone():
    """TVM mistypes vectors of bfloat16 that are taken for bits and back."""
    x = torch.linspace(-3, 3, 37).bfloat16()
    model = Apply(lambda x: torch.expm1(torch.clamp(x, max=0) / 2))
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    torch.testing.assert_close(library(x), model(x))
