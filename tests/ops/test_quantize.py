"""Bytes of floats: nearest, half to even, saturated, as PyTorch and ONNX have them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - registers operators
from tvm import te, tirx

from tests.kernels import host, run
from tvm_sparse.ops.bytes.quantize import (
    BOUND,
    SMALL,
    Parts,
    Scale,
    dequantized,
    quantized,
    whole_steps,
)
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.cpu.generic import GenericRule

SCALES = [Scale("uint8", 0.1, 0), Scale("uint8", 0.1, 255), Scale("int8", 0.037, -128)]
SCALES += [Scale("int8", 0.037, 127), Scale("int8", 1e-3, 5), Scale("uint8", 3.0, 128)]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30, 0.05, 0.15, -0.25, 1e-40]


def floats():
    x = np.random.default_rng(0).standard_normal(4096).astype(np.float32) * 30
    x[: len(EDGES)] = EDGES
    return x


def result(definition, x, dtype):
    tensor = te.placeholder(x.shape, x.dtype.name, "X")
    func = te.create_prim_func([tensor, definition(tensor)]).with_attr("global_symbol", "main")
    return run(func, [x], x.shape, host(), dtype)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bytes_are_those_of_pytorch(scale):
    x = floats()
    limits = scale.zero_point, *scale.limits, getattr(torch, scale.dtype)
    op = torch.ops.quantized_decomposed.quantize_per_tensor
    expected = op(torch.from_numpy(x), scale.scale, *limits).numpy()
    got = result(lambda t: quantized(t, scale), x, scale.dtype)
    known = ~np.isnan(x)
    np.testing.assert_array_equal(got[known], expected[known])
    assert (got[~known] == scale.limits[0]).all()


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bytes_of_quotients(scale):
    x = np.nan_to_num(floats(), nan=1.0)
    with np.errstate(over="ignore"):
        steps = np.rint(x / np.float32(scale.scale)).astype(np.float64) + scale.zero_point
    got = result(lambda t: quantized(t, scale, divide=True), x, scale.dtype)
    np.testing.assert_array_equal(got, np.clip(steps, *scale.limits).astype(scale.dtype))


@pytest.mark.grid
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("size", [4096, 4090])
@pytest.mark.parametrize("bound", [BOUND, SMALL])
def test_bounded_floats_are_rounded_as_others(scale, size, bound):
    step = dataclasses.replace(scale, scale=1.0)
    x = (np.arange(size) / 8 - 200).astype(np.float32)  # with ties
    x[:2] = 1 - bound, bound - 1
    low, high = scale.limits
    expected = np.clip(np.rint(x) + scale.zero_point, low, high)
    below = np.nextafter(bound, 0)
    got = result(lambda t: quantized(t, step, bound=below), x, scale.dtype)
    np.testing.assert_array_equal(got, expected.astype(scale.dtype))
    floats = result(lambda t: whole_steps(t, step, below), x, "float32")
    np.testing.assert_array_equal(floats, expected - scale.zero_point)


@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("bound", [math.inf, BOUND, BOUND - 1, SMALL, SMALL - 1])
def test_bounded_bytes_are_taken_apart(scale, bound):
    step = dataclasses.replace(scale, scale=1.0)
    x = te.placeholder((16,), "float32", "X")
    func = te.create_prim_func([x, quantized(x, step, bound=bound)])
    (store,) = nodes(func.body, tirx.BufferStore)
    found = Parts.of(store.value)
    assert (found is not None) == (bound < BOUND)
    if found is not None:
        assert (int(found.zero_point), found.dtype) == (scale.zero_point, scale.dtype)
        assert found.small == (bound < SMALL)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_extrema_of_places_are_none_of_bytes(dtype):
    table = te.placeholder((50, 16), dtype, "T")
    rows, x = te.placeholder((8,), "int64", "R"), te.placeholder((8, 16), "float32", "X")
    taken = te.compute((8, 16), lambda i, j: table[tirx.min(tirx.max(0, rows[i]), 49), j], "taken")
    steps = te.compute((8, 16), lambda i, j: x[tirx.min(tirx.max(0, rows[i]), 7), j], "steps")
    rounded = quantized(steps, Scale(dtype, 1.0, 3), bound=1e6)
    for tensors, bytes_ in (([table, rows, taken], False), ([x, rows, rounded], True)):
        stores = nodes(te.create_prim_func(tensors).body, tirx.BufferStore)
        assert (Parts.of(stores[-1].value) is not None) == bytes_


def test_others_are_not():
    x = te.placeholder((16,), "float32", "X")
    inner = whole_steps(x, Scale("int8", 1.0, 3), 1e6)
    func = te.create_prim_func([x, quantized(inner, Scale("uint8", 1.0, 9), bound=1e6)])
    found = [Parts.of(store.value) for store in nodes(func.body, tirx.BufferStore)]
    assert [f and int(f.zero_point) for f in found] == [None, 9]
    assert Parts.of(tirx.const(3, "uint8")) is None
    assert Parts.of(tirx.const(3.0, "float32")) is None


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_zero_point_of_a_shared_function_is_read(dtype):
    x, zero = te.placeholder((16,), "float32", "X"), tirx.Var("zero", "int32")
    func = te.create_prim_func([x, quantized(x, Scale(dtype, 1.0, 77), bound=1e6)])
    (store,) = nodes(func.body, tirx.BufferStore)

    def read(number):
        return zero if int(number) == 77 else number

    value = tvm_ffi.structural_map(store.value, (tirx.IntImm, read))
    assert Parts.of(value).zero_point.same_as(zero)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_bytes_mean_numbers(scale):
    low, high = scale.limits
    every = np.arange(low, high + 1).astype(scale.dtype)
    got = result(lambda t: dequantized(t, scale), every, "float32")
    expected = (every.astype(np.int32) - scale.zero_point).astype(np.float32)
    np.testing.assert_array_equal(got, expected * np.float32(scale.scale))


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_whole_steps_are_those_of_the_bytes(scale):
    x = floats()
    steps = dataclasses.replace(scale, scale=1.0)
    made = result(lambda t: quantized(t, steps), x, scale.dtype).astype(np.float32)
    got = result(lambda t: whole_steps(t, steps), x, "float32")
    np.testing.assert_array_equal(got, made - scale.zero_point)


def test_rounding_stays_in_vectors():
    """TVM takes a loop over lanes apart where it calls what it does not know."""
    tensor = te.placeholder((4096,), "float32", "X")
    func = te.create_prim_func([tensor, quantized(tensor, SCALES[0])])
    schedule = GenericRule().apply(func.with_attr("global_symbol", "main"), host(), False)
    code = tvm.compile(schedule.mod, host()).mod.inspect_source("ll")
    assert "store <16 x i8>" in code
    assert "gather" not in code
