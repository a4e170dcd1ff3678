"""Operators of onnxruntime on bytes, against onnxruntime itself."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnxruntime.quantization import QuantType, quantize_dynamic

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tests.quantized_networks import by_onnxruntime, typed

DOMAIN = "com.microsoft"
PARTS = {
    "x_s": np.float32(0.02),
    "x_z": np.uint8(110),
    "y_s": np.float32(0.0303),  # QLinearSoftmax of onnxruntime takes 33 for the inverse
    "y_z": np.uint8(90),
    "w_s": np.float32(0.01),
    "w_z": np.int8(0),
    "w": np.random.default_rng(0).integers(-127, 128, (8, 20), np.int8),
    "c": np.random.default_rng(1).integers(-3000, 3000, 20, np.int32),
    "chosen": np.random.default_rng(2).random(8) < 0.5,
}
WINDOWS = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1]}
NODES = {
    "QLinearAdd": ("q x_s x_z p y_s y_z y_s y_z", {}),
    "QLinearMul": ("q x_s x_z p y_s y_z y_s y_z", {}),
    "QLinearSigmoid": ("q x_s x_z y_s y_z", {}),
    "QLinearLeakyRelu": ("q x_s x_z y_s y_z", {"alpha": 0.2}),
    "QLinearConcat": ("y_s y_z q x_s x_z p y_s y_z", {"axis": 1}),
    "QGemm": ("q x_s x_z w w_s w_z c y_s y_z", {}),
    "QLinearWhere": ("chosen q x_s x_z p y_s y_z y_s y_z", {}),
    "QLinearSoftmax": ("q x_s x_z y_s y_z", {"axis": 2, "opset": 13}),
    "QLinearSoftmax, flat": ("q x_s x_z y_s y_z", {"axis": 2, "opset": 11}),
    "QLinearGlobalAveragePool": ("q x_s x_z y_s y_z", {"channels_last": 0}),
    "QLinearAveragePool": ("q x_s x_z y_s y_z", WINDOWS),
    "QLinearAveragePool, borders": ("q x_s x_z y_s y_z", {**WINDOWS, "count_include_pad": 1}),
}
IMAGES = ("QLinearGlobalAveragePool", "QLinearAveragePool", "QLinearSoftmax")


def model(operator: str, shape: tuple[int, ...]) -> onnx.ModelProto:
    """Return a model of ``operator`` on the bytes of its input, whose result it returns."""
    inputs, attributes = NODES[operator]
    nodes = [
        node("QuantizeLinear", "x x_s x_z", "q"),
        node("QuantizeLinear", "x y_s y_z", "p"),
        helper.make_node(
            operator.partition(",")[0], inputs.split(), ["r"], domain=DOMAIN, **attributes
        ),
        node("DequantizeLinear", "r y_s y_z", "y"),
    ]
    parts = {name: np.asarray(value) for name, value in PARTS.items() if name in _read(nodes)}
    domains = {DOMAIN: 1}
    return typed(graph(nodes, {"x": shape}, ["y"], parts, opset=17, domains=domains), len(shape))


def _read(nodes) -> set[str]:
    return {name for found in nodes for name in found.input}


@pytest.mark.grid
@pytest.mark.parametrize("operator", NODES)
def test_bytes_are_next_to_those_of_onnxruntime(operator, tmp_path):
    shape = (2, 8, 3, 3) if operator.startswith(IMAGES) else (6, 8)
    path = tmp_path / "model.onnx"
    onnx.save(model(operator, shape), path)
    x = np.random.default_rng(2).standard_normal(shape, np.float32)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    steps = np.abs(library(x) - by_onnxruntime(path, x)) / PARTS["y_s"]
    assert steps.max() < 1.01
    assert (steps > 0.5).mean() < 0.02


def test_products_of_bytes_are_integers(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(model("QGemm", (300, 8)), path)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    assert [d.layer for d in library.decisions] == ["w"]
    assert any("linear_dense_uint8" in kernel.function for kernel in library.kernels)
    x = np.random.default_rng(2).standard_normal((300, 8), np.float32)
    np.testing.assert_array_equal(library(x), by_onnxruntime(path, x))


@pytest.mark.grid
@pytest.mark.parametrize("by_gate", [False, True])
@pytest.mark.parametrize("kind", [QuantType.QInt8, QuantType.QUInt8])
def test_an_lstm_of_bytes_rounds_its_input_and_state(kind, by_gate, tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"w": (2, 24, 8), "r": (2, 24, 6), "b": (2, 48)}
    parts = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    layer = node("LSTM", "x w r b", "y", hidden_size=6, direction="bidirectional")
    plain, path = tmp_path / "plain.onnx", tmp_path / "model.onnx"
    onnx.save(typed(graph([layer], {"x": (3, 1, 8)}, ["y"], parts, opset=17), 4), plain)
    quantize_dynamic(plain, path, per_channel=by_gate, weight_type=kind)
    assert [n.op_type for n in onnx.load(path).graph.node] == ["DynamicQuantizeLSTM"]
    x = rng.standard_normal((3, 1, 8), np.float32)
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    np.testing.assert_allclose(library(x), by_onnxruntime(path, x), atol=1e-5)
    steps = [kernel.function for kernel in library.profile(x) if "lstm" in kernel.function]
    assert all(name.startswith("lstm_iofg_dense_uint8") for name in steps)
    assert len(steps) == 2


@pytest.mark.grid
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_an_lstm_of_bytes_takes_any_batch(direction, tmp_path):
    rng, several = np.random.default_rng(0), 2 if direction == "bidirectional" else 1
    shapes = {"w": (several, 24, 8), "r": (several, 24, 6), "b": (several, 48)}
    parts = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    layer = node("LSTM", "x w r b", "y", hidden_size=6, direction=direction)
    x, found = rng.standard_normal((3, 2, 8), np.float32), []
    for batch in (2, "n"):
        made = graph([layer], {"x": (3, batch, 8)}, ["y"], parts, opset=17)
        onnx.save(typed(made, 4), tmp_path / "plain.onnx")
        quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "model.onnx")
        config = ts.Config(measure=False, tuned=False)
        found.append(ts.compile(tmp_path / "model.onnx", config=config))
    np.testing.assert_allclose(found[0](x), found[1](x), atol=1e-6)
    alone = by_onnxruntime(tmp_path / "model.onnx", x[:, :1])
    np.testing.assert_allclose(found[1](x[:, :1]), alone, atol=1e-5)


@pytest.mark.grid
def test_an_lstm_of_bytes_takes_a_computed_batch(tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 24, 8), "r": (1, 24, 6), "b": (1, 48)}
    parts = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    layers = [
        node("Concat", "x x", "d", axis=1),
        node("LSTM", "d w r b", "y", hidden_size=6),
    ]
    x, found = rng.standard_normal((3, 5, 8), np.float32), []
    for batch in (5, "n"):
        made = graph(layers, {"x": (3, batch, 8)}, ["y"], parts, opset=17)
        onnx.save(typed(made, 4), tmp_path / "plain.onnx")
        quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "model.onnx")
        config = ts.Config(measure=False, tuned=False)
        found.append(ts.compile(tmp_path / "model.onnx", config=config))
    steps = [k.function for k in found[1].profile(x) if "lstm" in k.function]
    assert [name.startswith("lstm_iofg_dense_uint8") for name in steps] == [True]
    np.testing.assert_allclose(found[0](x), found[1](x), atol=1e-6)
    assert found[1](x[:, :3]).shape == (3, 1, 6, 6)


@pytest.mark.grid
@pytest.mark.parametrize("weights", [QuantType.QInt8, QuantType.QUInt8])
def test_an_lstm_of_bytes_takes_any_batch_and_steps(weights, tmp_path):
    rng = np.random.default_rng(0)
    shapes = {"w": (2, 24, 8), "r": (2, 24, 6), "b": (2, 48)}
    parts = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    layer = node("LSTM", "x w r b", "y h c", hidden_size=6, direction="bidirectional")
    made = graph([layer], {"x": ("t", "n", 8)}, ["y", "h", "c"], parts, opset=17)
    for value, rank in zip(made.graph.output, (4, 3, 3), strict=True):
        kind = onnx.TensorProto.FLOAT
        value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, [None] * rank))
    onnx.save(made, tmp_path / "plain.onnx")
    quantize_dynamic(tmp_path / "plain.onnx", tmp_path / "model.onnx", weight_type=weights)
    library = ts.compile(tmp_path / "model.onnx", config=ts.Config(measure=False, tuned=False))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    # Other batches than one give another state scale in onnxruntime: it rounds each item alone.
    for steps in (1, 2, 7):
        x = rng.standard_normal((steps, 1, 8), np.float32)
        for ours, theirs in zip(library.run(x), session.run(None, {"x": x}), strict=True):
            np.testing.assert_allclose(np.from_dlpack(ours), theirs, atol=1e-5)
    several = rng.standard_normal((5, 3, 8), np.float32)
    closed = ts.load(tmp_path / "model.onnx", (several,))
    wanted = ts.compile(closed, config=ts.Config(measure=False, tuned=False)).run(several)
    for ours, theirs in zip(library.run(several), wanted, strict=True):
        np.testing.assert_allclose(np.from_dlpack(ours), np.from_dlpack(theirs), atol=1e-6)


def _with_lengths(folder, direction, lengths):
    """Write an LSTM of bytes over sequences of given lengths, of four steps at most."""
    rng, several = np.random.default_rng(0), 2 if direction == "bidirectional" else 1
    shapes = {"w": (several, 24, 8), "r": (several, 24, 6), "b": (several, 48)}
    parts = {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    parts["n"] = np.array(lengths, np.int32)
    layer = node("LSTM", "x w r b n", "y", hidden_size=6, direction=direction)
    made = graph([layer], {"x": (4, len(lengths), 8)}, ["y"], parts, opset=17)
    onnx.save(typed(made, 4), folder / "plain.onnx")
    quantize_dynamic(folder / "plain.onnx", folder / "model.onnx", weight_type=QuantType.QUInt8)
    return folder / "model.onnx"


@pytest.mark.grid
@pytest.mark.parametrize(("direction", "lengths"), [("forward", [1, 3, 2]), ("bidirectional", [2])])
def test_steps_behind_all_sequences_change_no_scale(direction, lengths, tmp_path):
    path = _with_lengths(tmp_path, direction, lengths)
    x = np.random.default_rng(1).standard_normal((4, len(lengths), 8), np.float32)
    x[-1] *= 10
    library = ts.compile(path, config=ts.Config(measure=False, tuned=False))
    np.testing.assert_allclose(library(x), by_onnxruntime(path, x), atol=1e-5)


def test_several_sequences_backwards_are_refused(tmp_path):
    with pytest.raises(ts.UnsupportedError, match="several sequences"):
        ts.compile(_with_lengths(tmp_path, "reverse", [1, 3]))


def test_others_are_refused_by_name(tmp_path):
    made = model("QLinearAdd", (6, 8))
    made.graph.node[2].op_type = "QLinearReduceMean"
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(
        ts.UnsupportedError, match=r"'QLinearReduceMean' of domain 'com.microsoft' cannot"
    ):
        ts.compile(tmp_path / "model.onnx")
