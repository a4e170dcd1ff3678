"""The first places of a stable sort, for every type, order, axis and count."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te

from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.tensors.top import top
from tvm_sparse.schedules.build import build_function


def first(x: np.ndarray, axis: int, count: int, descending: bool) -> np.ndarray:
    shape = list(x.shape)
    shape[axis] = count
    source = te.placeholder(x.shape, str(x.dtype), "x")
    found = top(source, axis, count, descending=descending, dtype="int64")
    function = build_function(te.create_prim_func([source, found]), parse_target("cpu").target)
    result = tvm.runtime.tensor(np.full(shape, -1, "int64"))
    function["main"](tvm.runtime.tensor(x), result)
    return result.numpy()


def expected(x: np.ndarray, axis: int, count: int, descending: bool) -> np.ndarray:
    wide = x.astype(np.float64)
    wide = np.where(np.isnan(wide), np.inf, np.clip(wide, -1e30, 1e30))
    order = np.argsort(-wide if descending else wide, axis, kind="stable")
    return np.take(order, range(count), axis)


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_places_are_those_of_a_stable_sort(data):
    shape = data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    count = data.draw(st.integers(1, shape[axis]))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32", "uint8", "int64"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    x = rng.integers(0, 6, shape).astype(dtype)
    descending = data.draw(st.booleans())
    np.testing.assert_array_equal(
        first(x, axis, count, descending), expected(x, axis, count, descending)
    )


@pytest.mark.parametrize("descending", [False, True])
def test_nan_is_larger_than_any_number(descending):
    x = np.array([1, np.nan, -np.inf, np.inf, -0.0, 0.0, np.nan, 2], np.float32)
    np.testing.assert_array_equal(first(x, 0, 8, descending), expected(x, 0, 8, descending))


@pytest.mark.parametrize("descending", [False, True])
def test_lines_that_are_sorted_already(descending):
    """Each element is inserted at the front, or none is."""
    x = np.arange(200, dtype=np.float32).reshape(2, 100)
    np.testing.assert_array_equal(first(x, 1, 7, descending), expected(x, 1, 7, descending))


@pytest.mark.grid
@pytest.mark.parametrize("extent", [5, 20, 21, 37, 100])
@pytest.mark.parametrize("dtype", ["float32", "int8", "int64"])
def test_long_lines_with_equal_elements(extent, dtype):
    x = np.random.default_rng(extent).integers(-9, 9, (3, extent)).astype(dtype)
    for descending in (False, True):
        np.testing.assert_array_equal(first(x, 1, 5, descending), expected(x, 1, 5, descending))
