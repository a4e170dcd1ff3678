"""Running sums and products along every axis, before and up to each element, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te

from tvm_sparse.ops.scan import scan
from tvm_sparse.schedules.build import build_function
from tvm_sparse.targets import parse_target


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


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("product", [False, True])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_every_axis(axis, product, exclusive, dtype):
    x = np.random.default_rng(axis).integers(-2, 3, (3, 5, 7)).astype(dtype)
    found = scanned(x, axis, product=product, exclusive=exclusive)
    np.testing.assert_array_equal(found, expected(x, axis, product, exclusive))


@pytest.mark.parametrize("columns", [2, 64, 100, 130])
def test_lines_side_by_side(columns):
    x = np.random.default_rng(columns).standard_normal((2, 9, columns)).astype(np.float32)
    found = scanned(x, 1, product=False, exclusive=False)
    np.testing.assert_array_equal(found, expected(x, 1, False, False))
