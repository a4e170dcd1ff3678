"""Quantized files in double precision."""

from __future__ import annotations

import numpy as np
import onnx

from benchmarks import exact_onnx
from tests.frontends.onnx.graphs import graph, node


def _file(folder):
    weights = {"s": np.float32(0.1), "z": np.uint8(128), "w": np.full((3, 2), 0.1, np.float32)}
    nodes = [
        node("MatMul", "x w", "m"),
        node("QuantizeLinear", "m s z", "q"),
        node("DequantizeLinear", "q s z", "y"),
    ]
    path = folder / "q.onnx"
    onnx.save(graph(nodes, {"x": ["n", 3]}, ["y"], weights, opset=17), path)
    return path


def test_exact_outputs_and_distances(tmp_path):
    path, x = _file(tmp_path), np.arange(6, dtype=np.float32).reshape(2, 3)
    wide = np.float64(np.float32(0.1))
    steps = np.rint(x.astype(np.float64) @ np.full((3, 2), wide) / wide)
    (found,) = exact_onnx.exact(path, {"x": x})
    assert exact_onnx.is_quantized(path) and found.dtype == np.float64
    np.testing.assert_allclose(found, steps * wide, rtol=1e-12)
    distances = exact_onnx.distances(path, {"x": x}, [found + 0.12])
    assert np.isclose(distances["library"], 0.12 / found.max())
    assert distances["onnxruntime, plain"] < 1e-6


def test_what_is_cast_to_floats_is_exact_too(tmp_path):
    kind = onnx.TensorProto.FLOAT
    weights = {"s": np.float32(0.1), "z": np.uint8(0)}
    nodes = [node("Cast", "n", "c", to=kind), node("Mul", "c s", "m")]
    nodes += [node("QuantizeLinear", "m s z", "q"), node("DequantizeLinear", "q s z", "d")]
    model = graph([*nodes, node("Add", "d m", "y")], {"n": [3]}, ["y"], weights, opset=17)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(model, tmp_path / "q.onnx")
    (found,) = exact_onnx.exact(tmp_path / "q.onnx", {"n": np.array([1, 2, 3])})
    np.testing.assert_allclose(found, np.arange(1, 4) * 2 * np.float64(np.float32(0.1)), rtol=1e-12)
