"""Operators of onnxruntime on bytes, against onnxruntime itself."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tests.quantised_networks import by_onnxruntime, typed

DOMAIN = "com.microsoft"
PARTS = {
    "x_s": np.float32(0.02),
    "x_z": np.uint8(110),
    "y_s": np.float32(0.03),
    "y_z": np.uint8(90),
    "w_s": np.float32(0.01),
    "w_z": np.int8(0),
    "w": np.random.default_rng(0).integers(-127, 128, (8, 20), np.int8),
    "c": np.random.default_rng(1).integers(-3000, 3000, 20, np.int32),
}
NODES = {
    "QLinearAdd": ("q x_s x_z p y_s y_z y_s y_z", {}),
    "QLinearMul": ("q x_s x_z p y_s y_z y_s y_z", {}),
    "QLinearSigmoid": ("q x_s x_z y_s y_z", {}),
    "QLinearLeakyRelu": ("q x_s x_z y_s y_z", {"alpha": 0.2}),
    "QLinearConcat": ("y_s y_z q x_s x_z p y_s y_z", {"axis": 1}),
    "QGemm": ("q x_s x_z w w_s w_z c y_s y_z", {}),
    "QLinearGlobalAveragePool": ("q x_s x_z y_s y_z", {"channels_last": 0}),
}


def model(operator: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    """Return a model of ``operator`` on the bytes of its input, whose result it returns."""
    inputs, attributes = NODES[operator]
    nodes = [
        node("QuantizeLinear", "x x_s x_z", "q"),
        node("QuantizeLinear", "x y_s y_z", "p"),
        helper.make_node(operator, inputs.split(), ["r"], domain=DOMAIN, **attributes),
        node("DequantizeLinear", "r y_s y_z", "y"),
    ]
    parts = {name: np.asarray(value) for name, value in PARTS.items() if name in _read(nodes)}
    domains = {DOMAIN: 1}
    return typed(graph(nodes, {"x": shape}, ["y"], parts, opset=17, domains=domains), len(shape))


def _read(nodes) -> set[str]:
    return {name for found in nodes for name in found.input}


@pytest.mark.parametrize("operator", NODES)
def test_bytes_are_next_to_those_of_onnxruntime(operator, tmp_path):
    shape = (2, 8, 3, 3) if operator.endswith("Pool") else (6, 8)
    path = tmp_path / "model.onnx"
    onnx.save(model(operator, shape), path)
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    steps = np.abs(library(x) - by_onnxruntime(path, x)) / PARTS["y_s"]
    assert steps.max() < 1.01
    assert (steps > 0.5).mean() < 0.02


def test_products_of_bytes_are_integers(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model("QGemm", (6, 8)), path)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    assert [d.layer for d in library.decisions] == ["w"]
    assert any("linear_dense_uint8" in kernel.function for kernel in library.kernels)


def test_others_are_refused_by_name(tmp_path):
    made = model("QLinearAdd", (6, 8))
    made.graph.node[2].op_type = "QLinearReduceMean"
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(ts.InputError, match="'QLinearReduceMean' cannot be imported"):
        ts.compile(tmp_path / "model.onnx")
