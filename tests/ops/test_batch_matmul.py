"""Products of two activations, read through views, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from tests.kernels import host, integers, run
from tvm_sparse.ops.contractions.batch_matmul import View, batch_matmul
from tvm_sparse.schedules.build import scheduled
from tvm_sparse.schedules.cpu.overlap_tiles import OverlapTiles


@pytest.mark.grid
@pytest.mark.parametrize("columns", [1, 15, 16, 20, 40, 48, 197])
@pytest.mark.parametrize("rows", [1, 14, 197])
def test_exact_for_any_extent(rows, columns):
    rng = np.random.default_rng(rows)
    a, b = integers(rng, (3, rows, 10)), integers(rng, (3, 10, columns))
    func = batch_matmul(View(a.shape), View(b.shape), View((3, rows, columns)), host())
    assert (run(func, [a, b], (3, rows, columns)) == a @ b).all()


@pytest.mark.parametrize("shape", [(1030, 3, 1037), (7, 3, 150001), (1031, 2, 1024)])
def test_results_larger_than_the_cache(shape):
    rows, steps, columns = shape
    rng = np.random.default_rng(0)
    a, b = integers(rng, (2, rows, steps)), integers(rng, (2, steps, columns))
    func = batch_matmul(View(a.shape), View(b.shape), View((2, rows, columns)), host())
    assert (run(func, [a, b], (2, rows, columns)) == a @ b).all()


def test_heads_are_read_in_place():
    rng = np.random.default_rng(0)
    query, key = integers(rng, (1, 20, 48)), integers(rng, (1, 20, 48))
    split = ("reshape", (1, 20, 3, 16))
    left = View(query.shape, (split, ("permute_dims", (0, 2, 1, 3))))
    right = View(key.shape, (split, ("permute_dims", (0, 2, 3, 1))))
    expected = np.einsum("bihd,bjhd->bhij", *(t.reshape(1, 20, 3, 16) for t in (query, key)))
    func = batch_matmul(left, right, View((1, 3, 20, 20)), host())
    assert not right.contiguous()
    assert (run(func, [query, key], (1, 3, 20, 20)) == expected).all()


MERGED = (("permute_dims", (0, 2, 1, 3)), ("reshape", (2, 19, 72)))


@pytest.mark.parametrize("columns", [24, 16, 8])
def test_heads_are_merged_by_the_store(columns):
    rng = np.random.default_rng(0)
    a, b = integers(rng, (2, 3, 19, 10)), integers(rng, (2, 3, 10, columns))
    merge = MERGED[0], ("reshape", (2, 19, 3 * columns))
    output = View((2, 3, 19, columns), merge)
    func = batch_matmul(View(a.shape), View(b.shape), output, host())
    expected = (a @ b).transpose(0, 2, 1, 3).reshape(merge[1][1])
    assert (run(func, [a, b], expected.shape) == expected).all()
    assert scheduled(func, host()).script().count("alloc_buffer") == 1  # the register tile


def test_views_that_keep_rows():
    heads = (2, 3, 19, 24)
    for steps, kept in (
        ((), True),
        (MERGED, True),
        ((("permute_dims", (2, 0, 1, 3)), ("reshape", (38, 72))), True),
        ((("permute_dims", (0, 1, 3, 2)),), False),
        ((("permute_dims", (0, 2, 3, 1)), ("reshape", (2, 19, 72))), False),
        ((("reshape", (2, 3, 19, 2, 12)),), True),
        ((("strided_slice", (0, 0, 0, 0, 2, 3, 9, 24)),), False),
    ):
        assert View(heads, steps).keeps_rows() is kept, steps


def test_odd_columns_carry_no_conditions_and_only_transposed_operands_are_packed():
    split = ("reshape", (20, 3, 16))
    for axes, packed in (((1, 2, 0), True), ((1, 0, 2), False)):
        right = View((20, 48), (split, ("permute_dims", axes)))
        rows, columns = (16, 20) if packed else (20, 16)
        left = View((3, 37, rows))
        func = batch_matmul(left, right, View((3, 37, columns)), host())
        module = OverlapTiles()(scheduled(func, host()))
        assert ("pack" in module.script()) is packed
        assert "T.where" not in module.script()


def test_leading_axes_broadcast():
    rng = np.random.default_rng(0)
    a, b = integers(rng, (2, 3, 5, 6)), integers(rng, (1, 6, 16))
    func = batch_matmul(View(a.shape), View(b.shape), View((2, 3, 5, 16)), host())
    assert (run(func, [a, b], (2, 3, 5, 16)) == a @ b).all()


@pytest.mark.parametrize("axes", [(0, 2, 1, 3), (0, 2, 3, 1)])
def test_views_of_extents_that_few_samples_have_none_of(axes):
    """Frames of sound: 17 samples, which stand for an open length, would be -1 of them."""
    length = tirx.Var("length", "int64")
    frames = (length - 400) // 320 + 1
    split = ("reshape", (1, frames, 3, 16))
    view = View((1, frames, 48), (split, ("permute_dims", axes)))
    assert view.contiguous() is (axes[-1] == 3)
    assert not view.keeps_rows()
    assert view.sample().shape[1] > 1


def test_an_extent_that_divides_by_a_part_of_another_one():
    n, m = (tirx.Var(name, "int64") for name in "nm")
    assert min(View((n, m // (n // 64), 4)).sample().shape) > 1


def test_an_extent_that_is_always_one_is_no_reason_for_a_large_sample():
    n = tirx.Var("n", "int64")
    assert View((n, n // n, 4)).sample().shape[0] < 100
