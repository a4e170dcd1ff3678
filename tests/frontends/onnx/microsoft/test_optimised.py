"""Files that onnxruntime's optimisers and quantizers write, against onnxruntime."""

from __future__ import annotations

import logging

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime import GraphOptimizationLevel as Level
from onnxruntime.quantization import QuantType, quantize_dynamic

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager, graph, node
from tests.frontends.onnx.microsoft.running import by_onnxruntime, normal
from tests.quantized_networks import typed

HEADS, SIZE, HIDDEN, LENGTH = 2, 16, 32, 5
CONFIG = ts.Config(measure=False, tuned=False)


def _pruned(*shape: int) -> np.ndarray:
    """Return a weight of which each bank of 16 inputs keeps four."""
    banks = normal(*shape[::-1]).reshape(-1, 16)
    np.put_along_axis(banks, np.abs(banks).argsort(1)[:, :12], 0, 1)
    return np.ascontiguousarray(banks.reshape(shape[::-1]).T) * 0.3


def _linear(name: str, x: str, weights: dict, inputs: int, outputs: int) -> list:
    weights[f"{name}.w"], weights[f"{name}.b"] = _pruned(inputs, outputs), normal(outputs)
    product = node("MatMul", f"{x} {name}.w", f"{name}_m")
    return [product, node("Add", f"{name}.b {name}_m", name)]


def encoder() -> onnx.ModelProto:
    """Return a layer of an encoder as PyTorch's exporter writes it."""
    weights = {
        "split": np.array([1, LENGTH, HEADS, SIZE]),
        "joined": np.array([1, LENGTH, HIDDEN]),
        "root": np.float32(4),
        "two": np.float32(2**0.5),
        "one": np.float32(1),
        "half": np.float32(0.5),
        **{name: normal(HIDDEN) for name in ("g1", "h1", "g2", "h2")},
    }
    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += _linear(name, "x", weights, HIDDEN, HIDDEN)
        nodes.append(node("Reshape", f"{name} split", f"{name}_r"))
        nodes.append(node("Transpose", f"{name}_r", f"{name}_t", perm=order))
    nodes += [
        node("MatMul", "q_t k_t", "raw"),
        node("Div", "raw root", "scores"),
        node("Softmax", "scores", "p", axis=-1),
        node("MatMul", "p v_t", "mixed"),
        node("Transpose", "mixed", "turned", perm=[0, 2, 1, 3]),
        node("Reshape", "turned joined", "back"),
        *_linear("o", "back", weights, HIDDEN, HIDDEN),
        node("Add", "o x", "a1"),
        node("LayerNormalization", "a1 g1 h1", "n1", axis=-1),
        *_linear("f1", "n1", weights, HIDDEN, 64),
        node("Div", "f1 two", "e1"),
        node("Erf", "e1", "e2"),
        node("Add", "e2 one", "e3"),
        node("Mul", "f1 e3", "e4"),
        node("Mul", "e4 half", "gelu"),
        *_linear("f2", "gelu", weights, 64, HIDDEN),
        node("Add", "f2 n1", "a2"),
        node("LayerNormalization", "a2 g2 h2", "y", axis=-1),
    ]
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    return typed(graph(nodes, {"x": (1, LENGTH, HIDDEN)}, ["y"], arrays, opset=17), 3)


def convolutions() -> onnx.ModelProto:
    """Return convolutions with activations, a sum and two linear layers."""
    weights = {
        "w0": normal(16, 3, 3, 3),
        "w1": normal(16, 16, 3, 3) * 0.1,
        "w2": np.ascontiguousarray(_pruned(16, 32).T),
        "w3": np.ascontiguousarray(_pruned(32, 10).T),
        **{f"b{i}": normal(n) for i, n in enumerate((16, 16, 32, 10))},
    }
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x w0 b0", "c0", **same),
        node("Relu", "c0", "r0"),
        node("Conv", "r0 w1 b1", "c1", **same),
        node("Add", "c1 r0", "a1"),
        node("Relu", "a1", "r1"),
        node("Conv", "r1 w1 b1", "c2", **same),
        node("LeakyRelu", "c2", "r2", alpha=0.2),
        node("GlobalAveragePool", "r2", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f w2 b2", "l0", transB=1),
        node("Tanh", "l0", "t0"),
        node("Gemm", "t0 w3 b3", "y", transB=1),
    ]
    return typed(graph(nodes, {"x": (1, 3, 8, 8)}, ["y"], weights, opset=17), 2)


FILES = {"encoder": encoder, "convolutions": convolutions}
WRITTEN = {
    ("encoder", "plain"): {"SkipLayerNormalization", "FusedMatMul"},
    ("encoder", "dynamic"): {"DynamicQuantizeMatMul", "MatMulIntegerToFloat"},
    ("convolutions", "plain"): {"FusedConv", "FusedGemm"},
    ("convolutions", "dynamic"): {"DynamicQuantizeMatMul"},
}


def _saved(source, folder, level):
    """Return the file that onnxruntime writes of its optimised graph."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.optimized_model_filepath = str(folder / "optimised.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), options)
    return folder / "optimised.onnx"


@pytest.mark.grid
@pytest.mark.parametrize(("name", "form"), WRITTEN)
def test_what_onnxruntime_saves_is_imported(name, form, tmp_path):
    source, ready = tmp_path / "plain.onnx", tmp_path / "ready.onnx"
    made = FILES[name]()
    onnx.save(made, source)
    if form == "dynamic":
        quantize_dynamic(source, ready, weight_type=QuantType.QInt8)
    path = _saved(source if form == "plain" else ready, tmp_path, Level.ORT_ENABLE_EXTENDED)
    saved = onnx.load(path)
    assert WRITTEN[name, form] <= {n.op_type for n in saved.graph.node if n.domain}
    shape = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim]
    x = normal(*shape)
    library = ts.compile(path, config=CONFIG)
    np.testing.assert_allclose(library(x), by_onnxruntime(saved, [x])[0], rtol=1e-4, atol=1e-4)
    if form == "plain":
        patterns = {d.layer: d.pattern for d in library.decisions}
        assert sum(p == "balanced 4 of 16" for p in patterns.values()) == (
            6 if name == "encoder" else 2
        )


def test_attention_of_the_optimiser_for_transformers(tmp_path):
    optimizer = pytest.importorskip("onnxruntime.transformers.optimizer")
    onnx.save(encoder(), tmp_path / "plain.onnx")
    logging.disable(logging.CRITICAL)
    try:
        options = {"num_heads": HEADS, "hidden_size": HIDDEN, "opt_level": 0}
        made = optimizer.optimize_model(str(tmp_path / "plain.onnx"), "bert", **options).model
    finally:
        logging.disable(logging.NOTSET)
    found = {n.op_type for n in made.graph.node if n.domain}
    assert found >= {"Attention", "SkipLayerNormalization", "BiasGelu"}
    x = normal(1, LENGTH, HIDDEN)
    np.testing.assert_allclose(eager(made, x)[0], by_onnxruntime(made, [x])[0], atol=1e-5)


def test_a_layout_for_one_machine_is_refused_with_what_to_do(tmp_path):
    onnx.save(convolutions(), tmp_path / "plain.onnx")
    path = _saved(tmp_path / "plain.onnx", tmp_path, Level.ORT_ENABLE_ALL)
    if not any(n.domain == "com.microsoft.nchwc" for n in onnx.load(path).graph.node):
        pytest.skip("this machine has no such layout")
    with pytest.raises(
        ts.UnsupportedError, match=r"of domain 'com.microsoft.nchwc'.*ENABLE_EXTENDED"
    ):
        ts.load(path)
