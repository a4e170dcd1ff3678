"""Networks quantized by onnxruntime's own quantizer, and its answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    QuantFormat,
    QuantType,
    quantize_dynamic,
    quantize_static,
)

from tests.frontends.onnx.graphs import graph, node

RNG = np.random.default_rng(7)


class _Batches(CalibrationDataReader):
    def __init__(self, shape: tuple[int, ...], count: int) -> None:
        self.left = iter([{"x": RNG.standard_normal(shape, np.float32)} for _ in range(count)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def _weight(*shape: int, sparsity: float = 0.0) -> np.ndarray:
    """Return a weight of which each bank of 16 columns keeps as many."""
    value = RNG.standard_normal(shape, np.float32) / np.sqrt(np.prod(shape[1:]))
    if sparsity:
        banks = np.moveaxis(value, 1, -1).reshape(-1, 16)
        order = np.abs(banks).argsort(1)[:, : round(16 * sparsity)]
        np.put_along_axis(banks, order, 0, 1)
        last = np.moveaxis(value, 1, -1).shape
        value = np.ascontiguousarray(np.moveaxis(banks.reshape(last), -1, 1))
    return value.astype(np.float32)


def small_network() -> onnx.ModelProto:
    """Return a network with a stem, a residual block, strides, a depthwise layer and a head."""
    weights = {
        "w0": _weight(16, 3, 3, 3),
        "w1": _weight(16, 16, 3, 3, sparsity=0.75),
        "w2": _weight(16, 16, 3, 3, sparsity=0.75),
        "w3": _weight(32, 16, 1, 1, sparsity=0.75),
        "w4": _weight(32, 16, 3, 3, sparsity=0.75),
        "w5": _weight(32, 1, 3, 3),
        "w6": _weight(10, 32, sparsity=0.75),
        **{f"b{i}": RNG.standard_normal(n, np.float32) for i, n in enumerate((16, 16, 16, 32, 32))},
        "b5": RNG.standard_normal(32, np.float32),
        "b6": RNG.standard_normal(10, np.float32),
    }
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x w0 b0", "c0", strides=[2, 2], **same),
        node("Relu", "c0", "r0"),
        node("MaxPool", "r0", "m0", strides=[2, 2], **same),
        node("Conv", "m0 w1 b1", "c1", **same),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w2 b2", "c2", **same),
        node("Add", "c2 m0", "a2"),
        node("Relu", "a2", "r2"),
        node("Conv", "r2 w3 b3", "c3", kernel_shape=[1, 1], strides=[2, 2]),
        node("Conv", "r2 w4 b4", "c4", strides=[2, 2], **same),
        node("Add", "c3 c4", "a4"),
        node("Conv", "a4 w5 b5", "c5", group=32, **same),
        node("GlobalAveragePool", "c5", "g"),
        node("Flatten", "g", "f"),
        node("Gemm", "f w6 b6", "y", transB=1),
    ]
    return graph(nodes, {"x": (1, 3, 24, 24)}, ["y"], weights, opset=17)


def quantized_by_onnxruntime(folder: Path, activation: str, form: str = "QDQ") -> Path:
    """Write the small network with ``QuantizeLinear`` and ``DequantizeLinear`` around its nodes.

    With the form ``"QOperator"`` each node is one on bytes instead.
    """
    plain, path = folder / "float.onnx", folder / "quantized.onnx"
    onnx.save(small_network(), plain)
    quantize_static(
        plain,
        path,
        _Batches((1, 3, 24, 24), 2),
        quant_format=QuantFormat[form],
        per_channel=True,
        activation_type=QuantType[activation],
        weight_type=QuantType.QInt8,
    )
    return path


def quantized_attention(folder: Path, activation: str, form: str = "QDQ") -> Path:
    """Write attention of 19 tokens and 3 heads of 8, whose products onnxruntime quantizes, too.

    With the form ``"QOperator"`` each product is one of bytes, whole weights have one scale.
    """
    weights = {name: _weight(24, 24) for name in ("wq", "wk", "wv", "wo")}
    weights |= {"split": np.array([1, 19, 3, 8]), "merged": np.array([1, 19, 24])}
    nodes = []
    for name, order in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes.append(node("MatMul", f"x w{name}", f"{name}0"))
        nodes.append(node("Reshape", f"{name}0 split", f"{name}1"))
        nodes.append(node("Transpose", f"{name}1", name, perm=order))
    nodes += [
        node("MatMul", "q k", "scores"),
        node("Softmax", "scores", "p", axis=-1),
        node("MatMul", "p v", "mixed"),
        node("Transpose", "mixed", "turned", perm=[0, 2, 1, 3]),
        node("Reshape", "turned merged", "joined"),
        node("MatMul", "joined wo", "y"),
    ]
    plain, path = folder / "float.onnx", folder / "attention.onnx"
    onnx.save(typed(graph(nodes, {"x": (1, 19, 24)}, ["y"], weights, opset=17), 3), plain)
    quantize_static(
        plain,
        path,
        _Batches((1, 19, 24), 2),
        quant_format=QuantFormat[form],
        per_channel=form == "QDQ",
        activation_type=QuantType[activation],
        weight_type=QuantType.QInt8,
    )
    return path


def quantized_dynamically(folder: Path) -> Path:
    """Write the small network with scales that are found when it runs."""
    plain, path = folder / "float.onnx", folder / "dynamic.onnx"
    onnx.save(small_network(), plain)
    quantize_dynamic(plain, path, weight_type=QuantType.QInt8)
    return path


def with_float_weights() -> onnx.ModelProto:
    """Return two layers whose weights are floats that the graph quantizes, a scale a tensor."""
    weights = {"w0": _weight(32, 16, 3, 3, sparsity=0.75), "w1": _weight(10, 32, sparsity=0.75)}
    parts = {**weights, "x_scale": np.float32(0.03), "x_zero": np.uint8(120)}
    parts |= {"y_scale": np.float32(0.02), "y_zero": np.uint8(10), "w_zero": np.int8(0)}
    nodes = []
    for name, value in weights.items():
        parts[f"{name}_scale"] = np.float32(np.abs(value).max() / 127)
        scale = f"{name}_scale w_zero"
        nodes.append(node("QuantizeLinear", f"{name} {scale}", f"{name}_q"))
        nodes.append(node("DequantizeLinear", f"{name}_q {scale}", f"{name}_d"))
    nodes += [
        node("QuantizeLinear", "x x_scale x_zero", "x_q"),
        node("DequantizeLinear", "x_q x_scale x_zero", "x_d"),
        node("Conv", "x_d w0_d", "c", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "g"),
        node("Flatten", "g", "f"),
        node("QuantizeLinear", "f y_scale y_zero", "f_q"),
        node("DequantizeLinear", "f_q y_scale y_zero", "f_d"),
        node("Gemm", "f_d w1_d", "y", transB=1),
    ]
    arrays = {name: np.asarray(value) for name, value in parts.items()}
    return typed(graph(nodes, {"x": (1, 16, 12, 12)}, ["y"], arrays, opset=17), 2)


def with_unsigned_weights(form: str, zero: int) -> onnx.ModelProto:
    """Return two layers whose weights are unsigned bytes that ``zero`` means zero of."""
    shapes, parts = {"w0": (32, 16, 3, 3), "w1": (10, 32)}, dict[str, np.ndarray]()
    for name, shape in shapes.items():
        banks = RNG.integers(0, 256, shape, np.uint8)
        banks.flat[:2] = 0, 255
        if name == "w0":
            banks[:, np.arange(16) % 4 > 0] = zero
        parts[name] = banks
    parts |= {"s": np.array(0.03, np.float32), "ws": np.array(0.002, np.float32)}
    parts |= {"z": np.array(120, np.uint8), "wz": np.array(zero, np.uint8)}
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    tail = [node("GlobalAveragePool", "r", "g"), node("Flatten", "g", "f")]
    tail.append(node("QuantizeLinear", "f s z", "f_q"))
    if form == "QOperator":
        parts["w1"] = np.ascontiguousarray(parts["w1"].T)
        nodes = [
            node("QuantizeLinear", "x s z", "x_q"),
            node("QLinearConv", "x_q s z w0 ws wz s z", "c_q", **same),
            node("DequantizeLinear", "c_q s z", "r"),
            *tail,
            node("QLinearMatMul", "f_q s z w1 ws wz s z", "y_q"),
            node("DequantizeLinear", "y_q s z", "y"),
        ]
    else:
        nodes = [
            node("QuantizeLinear", "x s z", "x_q"),
            node("DequantizeLinear", "x_q s z", "x_d"),
            *(node("DequantizeLinear", f"{w} ws wz", f"{w}_d") for w in shapes),
            node("Conv", "x_d w0_d", "r", **same),
            *tail,
            node("DequantizeLinear", "f_q s z", "f_d"),
            node("Gemm", "f_d w1_d", "y", transB=1),
        ]
    return typed(graph(nodes, {"x": (2, 16, 6, 7)}, ["y"], parts, opset=17), 2)


def typed(
    model: onnx.ModelProto, rank: int, dtype: int = onnx.TensorProto.FLOAT
) -> onnx.ModelProto:
    """Return ``model`` with the type of its output, as files have it."""
    (output,) = model.graph.output
    shape = [f"extent{axis}" for axis in range(rank)]
    output.CopyFrom(onnx.helper.make_tensor_value_info(output.name, dtype, shape))
    return model


def assert_near_onnxruntime(path: Path, library: object, x: np.ndarray) -> None:
    """Check the last layer's bytes against onnxruntime without its optimisations: but for ties."""
    expected, got = by_onnxruntime(path, x), library(x)
    step = np.diff(np.unique(expected)).min()
    assert np.abs(got - expected).max() <= 1.01 * step
    assert (np.abs(got - expected) > 0.5 * step).mean() <= 0.1


def by_onnxruntime(path: Path, x: np.ndarray) -> np.ndarray:
    """Return onnxruntime's answer without its optimisations."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    (expected,) = onnxruntime.InferenceSession(path, options).run(None, {"x": x})
    return np.asarray(expected)
