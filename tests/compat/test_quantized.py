"""Pruned and quantized ONNX files as SparseML wrote them, through the engine."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx.reference import ReferenceEvaluator

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.base.config import Config
from tvm_sparse.compat.deepsparse import Engine

IN, MIDDLE, OUT = 0.02, 0.05, 0.1
"""Steps of the input, of the hidden activations, and of the weights."""


def held() -> dict[str, np.ndarray]:
    """Return int8 weights of which 14 of 16 are zero, biases, steps and zeros."""
    rng = np.random.default_rng(0)

    def pruned(*shape: int) -> np.ndarray:
        values = rng.integers(-127, 128, shape).astype(np.int8)
        return values * (np.arange(shape[1]) % 8 == 0).reshape(1, -1, *[1] * (len(shape) - 2))

    numbers = {"sx": IN, "sh": MIDDLE, "sw": OUT, "sc": IN * OUT, "sf": MIDDLE * OUT}
    return {
        "conv": pruned(32, 16, 3, 3),
        "fc": pruned(8, 32),
        "fct": np.zeros(0, np.int8),
        "bias": rng.integers(-500, 500, 32).astype(np.int32),
        "zx": np.uint8(128),
        "zh": np.uint8(0),
        "zw": np.int8(0),
        **{name: np.float32(value) for name, value in numbers.items()},
    }


def fake_quantized() -> list:
    """Convolution and product in floating point, between pairs of quantize and dequantize."""
    return [
        node("QuantizeLinear", "x sx zx", "xq"),
        node("DequantizeLinear", "xq sx zx", "xd"),
        node("DequantizeLinear", "conv sw zw", "convd"),
        node("DequantizeLinear", "bias sc", "biasd"),
        node("Conv", "xd convd biasd", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r sh zh", "hq"),
        node("DequantizeLinear", "hq sh zh", "hd"),
        node("ReduceMax", "hd axes", "p", keepdims=0),
        node("DequantizeLinear", "fc sw zw", "fcd"),
        node("Gemm", "p fcd", "y", transB=1),
    ]


def integers() -> list:
    """The same in whole numbers: ``ConvInteger`` and ``MatMulInteger``."""
    return [
        node("QuantizeLinear", "x sx zx", "xq"),
        node("ConvInteger", "xq conv zx zw", "ci", pads=[1, 1, 1, 1]),
        node("Reshape", "bias column", "bc"),
        node("Add", "ci bc", "ca"),
        node("Cast", "ca", "cf", to=TensorProto.FLOAT),
        node("Mul", "cf sc", "c"),
        node("Relu", "c", "r"),
        node("QuantizeLinear", "r sh zh", "hq"),
        node("Cast", "hq", "hw", to=TensorProto.INT32),
        node("ReduceMax", "hw axes", "pw", keepdims=0),
        node("Cast", "pw", "p", to=TensorProto.UINT8),
        node("MatMulInteger", "p fct zh zw", "mi"),
        node("Cast", "mi", "mf", to=TensorProto.FLOAT),
        node("Mul", "mf sf", "y"),
    ]


@pytest.fixture(params=[fake_quantized, integers])
def file(request, tmp_path):
    weights = held()
    weights["fct"] = weights["fc"].T.copy()
    weights |= {"axes": np.array([2, 3]), "column": np.array([1, -1, 1, 1])}
    nodes = request.param()
    read = {name for n in nodes for name in n.input}
    kept = {name: np.asarray(w) for name, w in weights.items() if name in read}
    model = graph(nodes, {"x": ["batch", 16, 8, 8]}, ["y"], kept)
    value = onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 8])
    model.graph.output[0].CopyFrom(value)
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_pruned_and_quantized_files(file):
    engine = Engine(file, batch_size=3, num_cores=1, config=Config(measure=False))
    x = np.random.default_rng(1).standard_normal((3, 16, 8, 8)).astype("float32")
    (found,) = engine.run([x])
    (wanted,) = ReferenceEvaluator(onnx.load(file)).run(None, {"x": x})
    # A sum that lies between two steps may be rounded to either: one of 255, by each weight.
    np.testing.assert_allclose(found, wanted, atol=MIDDLE * OUT * 127, rtol=1e-5)
    assert np.mean(np.abs(found - wanted) > 1e-3) < 0.05
    sparsities = [d.sparsity for d in engine.library.decisions]
    assert sparsities and all(s == pytest.approx(0.875, abs=0.02) for s in sparsities)
