"""Products with one matrix for each group of rows: any sizes, any ends, wild ones too."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te

from tvm_sparse.ops.contractions.grouped_products import grouped_products, tile_columns
from tvm_sparse.schedules.kernel import is_contraction
from tvm_sparse.schedules.rule import WRITTEN


def function(rows, inputs, outputs, groups, dtype="float32"):
    tiles, width = tile_columns(outputs).shape
    x = te.placeholder((rows, inputs), dtype, "x")
    weights = te.placeholder((groups, tiles, inputs, width), dtype, "w")
    ends = te.placeholder((groups,), "int32", "ends")
    return te.create_prim_func([x, weights, ends, grouped_products(x, weights, ends, outputs)])


def expected(x, weights, ends):
    result, first = np.zeros((x.shape[0], weights.shape[2]), x.dtype), 0
    for weight, end in zip(weights, ends, strict=True):
        last = max(min(end, x.shape[0]), first)
        result[first:last] = x[first:last] @ weight
        first = last
    return result


def check(rows, inputs, outputs, ends):
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (rows, inputs)).astype("float32")
    weights = rng.integers(-4, 5, (len(ends), inputs, outputs)).astype("float32")
    tiled = np.ascontiguousarray(weights[..., tile_columns(outputs)].transpose(0, 2, 1, 3))
    func = function(rows, inputs, outputs, len(ends))
    result = tvm.runtime.tensor(np.full((rows, outputs), np.nan, "float32"))
    operands = [tvm.runtime.tensor(a) for a in (x, tiled, np.array(ends, "int32"))]
    tvm.compile(func, target="llvm")["main"](*operands, result)
    np.testing.assert_array_equal(result.numpy(), expected(x, weights, ends))


@pytest.mark.parametrize("outputs", [1, 3, 64, 65, 130])
def test_any_number_of_columns(outputs):
    check(9, 5, outputs, [2, 2, 7, 9])


@settings(max_examples=10)
@given(st.integers(1, 12), st.lists(st.integers(-3, 15), min_size=1, max_size=4))
def test_any_ends(rows, ends):
    check(rows, 3, 20, ends)


def test_it_counts_as_a_contraction():
    assert is_contraction(function(4, 4, 4, 2), WRITTEN)
