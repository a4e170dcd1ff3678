"""ONNX files compile to what they mean: quantized and recurrent networks, sparse kernels, names."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import expected, graph, node

CONFIG = ts.Config(measure=False, cache=False)
RNG = np.random.default_rng(0)


def _file(tmp_path, model, *shapes):
    for value, shape in zip(model.graph.output, shapes, strict=True):
        value.CopyFrom(helper.make_tensor_value_info(value.name, TensorProto.FLOAT, shape))
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def _pruned(*shape):
    weight = RNG.standard_normal(shape).astype(np.float32)
    return weight * (RNG.random(shape) < 0.1)


def _around(name, source, scale, zero):
    """Quantize and dequantize ``source``, as exporters write around each operator."""
    return [
        node("QuantizeLinear", f"{source} {scale} {zero}", f"{name}_q"),
        node("DequantizeLinear", f"{name}_q {scale} {zero}", name),
    ]


def test_a_network_in_qdq_form(tmp_path):
    weights = {
        "xs": np.float32(0.05).reshape(()),
        "xz": np.uint8(128).reshape(()),
        "hs": np.float32(0.1).reshape(()),
        "hz": np.uint8(0).reshape(()),
        "conv.weight": RNG.integers(-127, 128, (8, 3, 3, 3)).astype(np.int8),
        "conv.scale": RNG.uniform(0.001, 0.01, 8).astype(np.float32),
        "conv.zero": np.zeros(8, np.int8),
        "fc.weight": RNG.integers(-127, 128, (8, 4)).astype(np.int8),
        "fc.scale": np.float32(0.01).reshape(()),
        "fc.zero": np.int8(3).reshape(()),
    }
    nodes = [
        *_around("x_dq", "x", "xs", "xz"),
        node("DequantizeLinear", "conv.weight conv.scale conv.zero", "w1", axis=0),
        node("Conv", "x_dq w1", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        *_around("h", "r", "hs", "hz"),
        node("GlobalAveragePool", "h", "p"),
        node("Flatten", "p", "f"),
        node("DequantizeLinear", "fc.weight fc.scale fc.zero", "w2"),
        node("MatMul", "f w2", "y"),
    ]
    model = graph(nodes, {"x": [2, 3, 8, 8]}, ["y"], weights)
    library = ts.compile(_file(tmp_path, model, [2, 4]), config=CONFIG)
    x = RNG.standard_normal((2, 3, 8, 8)).astype(np.float32)
    (wanted,) = expected(model, x)
    # One element of the hidden layer may be rounded to the other side of a half.
    np.testing.assert_allclose(library(x), wanted, atol=0.1 * 1.3 / 64)


def test_layers_are_named_by_their_weights_whichever_way_they_lie(tmp_path):
    weights = {"a.weight": _pruned(64, 64), "b.weight": _pruned(64, 64), "b.bias": _pruned(64)}
    nodes = [
        node("Gemm", "x a.weight", "h"),
        node("Relu", "h", "r"),
        node("Gemm", "r b.weight b.bias", "y", transB=1, alpha=0.5),
    ]
    model = graph(nodes, {"x": [8, 64]}, ["y"], weights)
    library = ts.compile(_file(tmp_path, model, [8, 64]), config=CONFIG)
    x = RNG.standard_normal((8, 64)).astype(np.float32)
    np.testing.assert_allclose(library(x), expected(model, x)[0], rtol=1e-4, atol=1e-5)
    chosen = {record.layer: record.chosen for record in library.decisions.records}
    assert chosen.keys() == {"a", "b"} and "dense" not in chosen.values()
    assert [spec.name for spec in (*library.inputs, *library.outputs)] == ["x", "y"]


def test_extents_that_must_be_static_are_one_error(tmp_path):
    shape = {"shape": np.array([5, 8])}
    model = graph([node("Reshape", "x shape", "y")], {"x": ["n", 8]}, ["y"], shape)
    with pytest.raises(ts.InputError, match=r"node 'y'.*--shape x=n,8 with numbers"):
        ts.compile(_file(tmp_path, model, [5, 8]), config=CONFIG)
