"""Largest elements of windows: every border, stride and distance, planes and volumes, NaN."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import s_tir, te, tirx

from tests.kernels import host, run
from tvm_sparse.ops.tensors.max_pool import max_pool
from tvm_sparse.schedules.blocks import VECTORIZED, nodes
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.schedules.rule import first_schedule


def _naive(x, spatial, window, strides, dilation, padding, shape):
    out = np.full(shape, -np.inf, x.dtype)
    for place in np.ndindex(*shape):
        for tap in np.ndindex(*window):
            at = list(place)
            for axis, k, s, d, p in zip(spatial, tap, strides, dilation, padding, strict=True):
                at[axis] = place[axis] * s - p + k * d
            if all(0 <= i < extent for i, extent in zip(at, x.shape, strict=True)):
                out[place] = np.maximum(out[place], x[tuple(at)])  # NaN wins
    return out


@pytest.mark.grid
@pytest.mark.parametrize(
    ("extents", "numbers", "counts"),
    [
        ((2, 9, 18), [(3, 2, 1, 1), (3, 2, 1, 1)], (5, 9)),
        ((2, 9, 18), [(3, 1, 1, 1), (3, 1, 1, 1)], (9, 18)),
        ((2, 9, 33), [(2, 3, 1, 0), (4, 3, 1, 1)], (3, 11)),  # beyond the end, as ceil_mode
        ((1, 8, 16), [(2, 2, 1, 0), (2, 2, 1, 0)], (4, 8)),  # windows side by side
        ((1, 8, 16), [(1, 1, 1, 0), (3, 1, 1, 1)], (8, 16)),  # one row each
        ((1, 9, 16), [(2, 1, 2, 1), (3, 1, 1, 1)], (9, 16)),  # distant rows
        ((1, 4, 16), [(2, 1, 1, 3), (3, 1, 1, 1)], (9, 16)),  # windows with nothing inside
        ((2, 4, 7, 17), [(3, 2, 1, 1), (3, 2, 1, 1), (3, 2, 1, 1)], (2, 4, 9)),
        ((1, 5, 6, 16), [(1, 2, 1, 0), (3, 1, 1, 1), (2, 1, 1, 0)], (3, 6, 15)),
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_largest_elements(extents, numbers, counts, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(-100, 100, extents).astype(dtype)
    spatial = range(1, len(extents))
    window, strides, dilation, padding = (list(row) for row in zip(*numbers, strict=True))
    shape = (extents[0], *counts)
    given = (spatial, window, strides, dilation, padding, shape)
    if dtype == "float32":
        x[rng.random(extents) < 0.05] = np.nan
        expected = _naive(x, *given)
    else:
        expected = np.maximum(_naive(x.astype(np.float32), *given), -128).astype(dtype)
    source = te.placeholder(extents, dtype)
    func = te.create_prim_func([source, max_pool(source, *given)])
    np.testing.assert_array_equal(run(func, [x], shape, dtype=dtype), expected)


def test_rows_first_only_where_columns_lie_side_by_side():
    source = te.placeholder((1, 8, 8, 16), "float32")
    planes = max_pool(source, [1, 2], [3, 3], [2, 2], [1, 1], [1, 1], [1, 4, 4, 16])
    rows = max_pool(source, [2, 3], [3, 3], [2, 2], [1, 1], [1, 1], [1, 8, 4, 8])
    assert [t.op.name for t in planes.op.input_tensors] == ["pad"]
    assert [t.op.name for t in rows.op.input_tensors] == ["max_pool_rows"]


@pytest.mark.parametrize("channels", [64, 96, 128])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_bytes_fill_vectors(channels, dtype):
    limits = np.iinfo(dtype)
    x = np.random.default_rng(0).integers(limits.min, limits.max + 1, (1, 7, 9, channels))
    given = ([1, 2], [3, 3], [2, 2], [1, 1], [1, 1], (1, 4, 5, channels))
    source = te.placeholder(x.shape, dtype)
    func = te.create_prim_func([source, max_pool(source, *given)]).with_attr(
        "global_symbol", "main"
    )
    schedule, _ = first_schedule(func, host(), rules_for(host()))
    loops = nodes(schedule.mod["main"].body, tirx.For)
    widths = {int(loop.extent) for loop in loops if int(loop.kind) == VECTORIZED}
    assert widths == {16 if channels == 96 else 64}
    expected = np.maximum(_naive(x.astype(np.float32), *given), limits.min)
    got = run(func, [x.astype(dtype)], given[-1], dtype=dtype)
    np.testing.assert_array_equal(got, expected.astype(dtype))


@pytest.mark.parametrize(("behind", "blocks"), [((0, 0), 1), ((None, None), 2), ((0, 1), 2)])
def test_open_windows_ask_for_borders_only_where_there_may_be_some(behind, blocks):
    n = tirx.Var("n", "int64")
    source = te.placeholder((2, n, n, 16), "float32")
    half = tirx.floordiv(n - 2, 2) + 1
    pooled = max_pool(source, [1, 2], [2, 2], [2, 2], [1, 1], [0, 0], (2, half, half, 16), behind)
    sch = s_tir.Schedule(te.create_prim_func([source, pooled]))
    assert len(sch.get_child_blocks(sch.get_sblock("root"))) == blocks
