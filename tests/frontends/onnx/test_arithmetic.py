"""Unsigned numbers, whose differences are none: TVM's simplifier takes them for integers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
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
