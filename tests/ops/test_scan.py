"""Running sums and products along every axis, before and up to each element, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.tensors.scan import scan
from tvm_sparse.schedules.build import build_function


def scanned(x: np.ndarray, axis: int, **how: bool) -> np.ndarray:
    source = te.placeholder(x.shape, str(x.dtype), "x")
    found = scan(source, axis, dtype=str(x.dtype), **how)
    function = build_function(te.create_prim_func([source, found]), parse_target("cpu").target)
    result = tvm.runtime.tensor(np.zeros_like(x))
    function["main"](tvm.runtime.tensor(x), result)
    return result.numpy()


def expected(x: np.ndarray, axis: int, product: bool, exclusive: bool) -> np.ndarray:
    found = (np.cumprod if product else np.cumsum)(x, axis, dtype=np.float64)
    if exclusive:
        first = np.full_like(np.take(found, [0], axis), product)
        found = np.concatenate([first, np.take(found, range(x.shape[axis] - 1), axis)], axis)
    return found.astype(x.dtype)


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_axis(axis, product, exclusive, dtype):
    x = np.random.default_rng(axis).integers(-2, 3, (3, 5, 7)).astype(dtype)
    found = scanned(x, axis, product=product, exclusive=exclusive)
    np.testing.assert_array_equal(found, expected(x, axis, product, exclusive))


@pytest.mark.grid
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 17])
@pytest.mark.parametrize("columns", [2, 16, 17, 33, 49, 65, 130, 196])
def test_lines_side_by_side(columns, rows, product, exclusive):
    x = np.random.default_rng(columns).integers(-9, 9, (2, rows, columns)).astype(np.float32)
    x = np.sign(x) if product else x
    found = scanned(x, 1, product=product, exclusive=exclusive)
    np.testing.assert_array_equal(found, expected(x, 1, product, exclusive))


def test_products_and_doubles_side_by_side_are_rounded_once():
    x = np.random.default_rng(0).uniform(0.9, 1.1, (2, 40, 70))
    single = x.astype(np.float32)
    found = scanned(single, 1, product=True, exclusive=False)
    np.testing.assert_array_equal(found, expected(single, 1, True, False))
    np.testing.assert_array_equal(
        scanned(x, 1, product=False, exclusive=False), expected(x, 1, False, False)
    )


def test_errors_do_not_grow_with_the_line():
    x = np.random.default_rng(0).random((20000, 65)).astype(np.float32)
    found = scanned(x, 0, product=False, exclusive=False)
    exact = np.cumsum(x.astype(np.float64), 0)
    np.testing.assert_allclose(found, exact, rtol=10 * 2.0**-24)
    np.testing.assert_allclose(found[9:], exact[9:], rtol=4 * 2.0**-24)


@pytest.mark.parametrize("row", [0, 5, 8, 20])
def test_infinities_stay_and_opposite_ones_are_no_number(row):
    x = np.ones((30, 20), np.float32)
    x[row, 0], x[row, 1], x[row, 2] = np.inf, -np.inf, np.nan
    x[row, 3], x[-1, 3] = np.inf, -np.inf
    found = scanned(x, 0, product=False, exclusive=False)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, expected(x, 0, False, False))
