"""Unsigned numbers, whose differences are none, and constants of bfloat16."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
TWO = (
    *("Add", "Sub", "Mul", "Div", "Mod", "Pow", "Less", "LessOrEqual", "Greater", "Equal"),
    *("GreaterOrEqual", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor"),
)


@pytest.mark.parametrize(
    "dtype", ["uint64", *(pytest.param(f"uint{n}", marks=pytest.mark.slow) for n in (8, 16, 32))]
)
def test_unsigned_arithmetic(dtype, tmp_path):
    """Each operator of inputs, of a number, and of a choice that is zero for some elements."""
    largest = np.iinfo(dtype).max
    x = np.array([0, 1, 2, 7, 40, largest // 2, largest // 2 + 1, largest], dtype)
    z = np.array([1, 3, 200, 7, 5, 2, largest, 3], dtype)
    nodes = [node("Greater", "x three", "c"), node("Where", "c zero x", "t")]
    for name in TWO:
        nodes += [node(name, f"{a} {b}", f"{name}_{a}_{b}") for a, b in ("xz", "tz")]
        nodes += [node(name, "t three", f"{name}_t_n"), node(name, "x three", f"{name}_x_n")]
    for name in ("LEFT", "RIGHT"):
        nodes += [node("BitShift", "x z", f"{name}_x_z", direction=name)]
        nodes += [node("BitShift", "t three", f"{name}_t_n", direction=name)]
        nodes += [node("BitShift", "three t", f"{name}_n_t", direction=name)]
    nodes += [node(name, "x", name) for name in ("BitwiseNot", "Sign")]
    names = [made.output[0] for made in nodes[2:]]
    weights = {"three": np.array([3], dtype), "zero": np.array([0], dtype)}
    model = graph(nodes, {"x": x.shape, "z": z.shape}, names, weights)
    for value in model.graph.input:
        value.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    onnx.save(model, tmp_path / "model.onnx")
    found = ts.compile(tmp_path / "model.onnx", config=CONFIG).run(x, z)
    with np.errstate(all="ignore"):
        wanted = ReferenceEvaluator(model).run(None, {"x": x, "z": z})
    for name, a, b in zip(names, found, wanted, strict=True):
        np.testing.assert_array_equal(a, b, name)
        assert a.dtype == b.dtype, name


def test_unsigned_numbers_are_negated(tmp_path):
    model = graph([node("Neg", "x", "y")], {"x": [3]}, ["y"])
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.UINT8
    onnx.save(model, tmp_path / "model.onnx")
    x = np.array([0, 1, 255], np.uint8)
    np.testing.assert_array_equal(
        ts.compile(tmp_path / "model.onnx", config=CONFIG).run(x)[0], [0, 255, 1]
    )


def test_constants_of_bfloat16(tmp_path):
    held = {
        name: np.array(value, ml_dtypes.bfloat16)
        for name, value in {"low": -1, "high": 2.5, "step": 0.5, "two": 2}.items()
    }
    nodes = [
        node("Clip", "x low high", "clipped"),
        node("Mul", "clipped two", "doubled"),
        node("Range", "low high step", "range"),
        node("Constant", "", "c", value=numpy_helper.from_array(held["high"])),
        node("Add", "doubled c", "y"),
    ]
    model = graph(nodes, {"x": [4]}, ["y", "range"], held)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    onnx.save(model, tmp_path / "model.onnx")
    x = torch.tensor([-3.0, 0.5, 2.0, 9.0], dtype=torch.bfloat16)
    y, steps = ts.compile(tmp_path / "model.onnx", config=CONFIG)(x)
    assert y.dtype == steps.dtype == torch.bfloat16
    assert y.tolist() == [0.5, 3.5, 6.5, 7.5]
    assert steps.tolist() == [-1, -0.5, 0, 0.5, 1, 1.5, 2]
