"""Sorting is stable, puts NaN above all numbers, and takes equal zeros for equal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from tvm import te, tirx

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.ops.tensors.sort import argsort, position_type

NAN, INF = np.nan, np.inf


def _sorted(x: np.ndarray, axis: int, *, descending: bool) -> np.ndarray:
    source = te.placeholder(x.shape, str(x.dtype))
    order = argsort(source, axis, descending=descending, dtype="int64")
    function = tvm.compile(te.create_prim_func([source, order]), target="llvm")
    result = tvm.runtime.empty(x.shape, "int64")
    function(tvm.runtime.tensor(x), result)
    return result.numpy()


@pytest.mark.grid
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("length", [1, 2, 7, 31, 32, 33, 64, 65, 100, 300])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_order_is_that_of_a_stable_sort(length, descending, dtype):
    x = np.random.default_rng(length).integers(-3, 4, (2, length, 3)).astype(dtype)
    expected = torch.sort(torch.from_numpy(x), dim=1, descending=descending, stable=True).indices
    np.testing.assert_array_equal(_sorted(x, 1, descending=descending), expected.numpy())


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_special_values(descending, dtype):
    x = np.array([[3, NAN, -1, INF, 0, -0.0, -NAN, 1e-7, -INF, -0.0, 2, 0]], dtype)
    expected = torch.sort(torch.from_numpy(x), descending=descending, stable=True).indices
    np.testing.assert_array_equal(_sorted(x, -1, descending=descending), expected.numpy())


def test_booleans():
    x = np.array([True, False, True, False])
    np.testing.assert_array_equal(_sorted(x, 0, descending=False), [1, 3, 0, 2])


def test_a_line_of_any_length():
    source = te.placeholder((tirx.Var("n", "int64"),), "float32")
    order = argsort(source, 0, descending=False, dtype="int64")
    function = tvm.compile(te.create_prim_func([source, order]), target="llvm")
    for length in (1, 32, 33, 100, 1000, 5000):
        x = np.random.default_rng(length).integers(0, 50, length).astype("float32")
        result = tvm.runtime.empty(x.shape, "int64")
        function(tvm.runtime.tensor(x), result)
        np.testing.assert_array_equal(result.numpy(), np.argsort(x, kind="stable"))


@pytest.mark.grid
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
@pytest.mark.parametrize("descending", [False, True])
def test_the_ends_of_a_type(dtype, descending):
    ends = np.iinfo(dtype)
    x = np.resize(np.array([ends.max, ends.min, 0, ends.max, 1, ends.min], dtype), (1, 45))
    expected = torch.sort(torch.from_numpy(x), descending=descending, stable=True).indices
    np.testing.assert_array_equal(_sorted(x, -1, descending=descending), expected.numpy())


@pytest.mark.parametrize(
    ("extent", "dtype"),
    [(2**31, "int32"), (2**31 + 1, "int64"), (tirx.Var("n", "int64"), "int64")],
)
def test_positions_are_as_wide_as_the_line_is_long(extent, dtype):
    source = te.placeholder((extent,), "int8")
    assert position_type(source.shape[0]) == dtype
    function = te.create_prim_func([source, argsort(source, 0, descending=False, dtype="int64")])
    held: list[str] = []

    def see(node):
        if node.buffer.scope() != "local":
            held.append(str(node.buffer.dtype))

    tvm_ffi.structural_walk(function.body, ((tirx.AllocBuffer, tirx.DeclBuffer), see))
    assert held == ["int8", dtype]


def test_positions_that_cannot_be_counted_are_refused():
    with pytest.raises(UnsupportedError, match="positions of int32 on lines of 2147483649"):
        argsort(te.placeholder((2**31 + 1,), "int8"), 0, descending=False, dtype="int32")
