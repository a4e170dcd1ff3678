"""Recurrent layers of an open number of steps: run, or refused by the reason."""

from __future__ import annotations

import functools

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper, save

import tvm_sparse as ts
from tests.frontends.onnx.microsoft.running import by_onnxruntime

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
KINDS = {
    "LSTM": ("LSTM", {}),
    "GRU": ("GRU", {"linear_before_reset": 1}),
    "GRU that resets first": ("GRU", {}),
    "RNN": ("RNN", {}),
}


def layer(folder, operator, *, constant, **attributes):
    """Return a layer of five features over open steps, its weights constants or inputs."""
    generator = np.random.default_rng(0)
    sizes = {"W": (1, 5 * GATES[operator], 3), "R": (1, 5 * GATES[operator], 5)}
    values = {n: generator.standard_normal(s, dtype="f4") for n, s in sizes.items()}
    held = [numpy_helper.from_array(v, n) for n, v in values.items()] if constant else []
    given = {"x": ("t", 2, 3), **({} if constant else sizes)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in given.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(operator, ["x", "W", "R"], ["y"], hidden_size=5, **attributes)
    graph = helper.make_graph([node], "steps", inputs, [output], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)])
    path = folder / "steps.onnx"
    save(model, path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_steps_of_constant_weights(tmp_path, kind):
    onnxruntime = pytest.importorskip("onnxruntime")
    operator, attributes = KINDS[kind]
    model = layer(tmp_path, operator, constant=True, **attributes)
    session = onnxruntime.InferenceSession(model)
    library = ts.compile(model, config=CONFIG)
    for steps in (1, 2, 9):
        x = np.random.default_rng(steps).standard_normal((steps, 2, 3), dtype="f4")
        (wanted,) = session.run(None, {"x": x})
        found = library(torch.from_numpy(x))
        assert np.allclose(found.numpy(), wanted, atol=1e-5)


@pytest.mark.parametrize("operator", GATES)
def test_steps_of_computed_weights_are_refused(tmp_path, operator):
    told = f"{operator} of computed weights: runs an open number of steps; expected weights that"
    with pytest.raises(ts.SparseError, match=told):
        ts.compile(layer(tmp_path, operator, constant=False), config=CONFIG)


def test_steps_on_gpus_are_refused(tmp_path):
    told = "runs an open number of steps; expected a CPU, in float32, or one number of steps"
    with pytest.raises(ts.SparseError, match=told):
        ts.compile(layer(tmp_path, "LSTM", constant=True), target="cuda:sm_90", config=CONFIG)


def test_steps_that_are_written_out_are_told(tmp_path):
    told = "steps.onnx: is another program for each size of 't', and takes 4 now; fix extents by"
    with pytest.warns(UserWarning, match=told):
        library = ts.compile(layer(tmp_path, "GRU", constant=True, clip=1.0), config=CONFIG)
    assert library.inputs[0].shape == (4, 2, 3)


def test_steps_that_are_chosen_are_not_told(tmp_path, recwarn):
    example = (torch.zeros(7, 2, 3),)
    library = ts.compile(layer(tmp_path, "GRU", constant=True, clip=1.0), example, config=CONFIG)
    assert library.inputs[0].shape == (7, 2, 3)
    assert not [w for w in recwarn if "another program" in str(w.message)]


def of_lengths(folder, operator, directions, **attributes):
    """Return a layer that takes open steps, the lengths of its sequences and its first states."""
    generator, gates = np.random.default_rng(0), 5 * GATES[operator]
    sizes = {"W": (gates, 3), "R": (gates, 5), "B": (2 * gates,)}
    values = {
        name: generator.standard_normal((directions, *size), dtype="f4")
        for name, size in sizes.items()
    }
    states = ["h", "c"] if operator == "LSTM" else ["h"]
    shapes = {"x": ("t", "n", 3), **{name: (directions, "n", 5) for name in states}}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()]
    inputs.insert(1, helper.make_tensor_value_info("l", TensorProto.INT32, ["n"]))
    names = ["y", *(f"last_{name}" for name in states)]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
    node = helper.make_node(
        operator, ["x", "W", "R", "B", "l", *states], names, hidden_size=5, **attributes
    )
    held = [numpy_helper.from_array(value, name) for name, value in values.items()]
    graph = helper.make_graph([node], "steps", inputs, outputs, held)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]), folder / "l.onnx")
    return folder / "l.onnx"


@pytest.mark.grid
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("kind", KINDS)
def test_sequences_of_their_own_lengths(tmp_path, kind, direction):
    onnxruntime = pytest.importorskip("onnxruntime")
    operator, attributes = KINDS[kind]
    count = 2 if direction == "bidirectional" else 1
    path = of_lengths(tmp_path, operator, count, direction=direction, **attributes)
    session, library = onnxruntime.InferenceSession(path), ts.compile(path, config=CONFIG)
    assert library.inputs[0].shape == ("t", "n", 3)
    for steps, lengths in ((1, [1]), (7, [7, 1, 4]), (33, [32, 5])):
        generator = np.random.default_rng(steps)
        draw = functools.partial(generator.standard_normal, dtype="f4")
        given = {"x": draw((steps, len(lengths), 3)), "l": np.array(lengths, "i4")}
        given |= {spec.name: draw((count, len(lengths), 5)) for spec in library.inputs[2:]}
        for found, wanted in zip(library(*given.values()), session.run(None, given), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-5)
        given["x"][np.arange(steps)[:, None] >= given["l"]] = np.nan  # which nothing reads
        for found, wanted in zip(library(*given.values()), session.run(None, given), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_an_empty_sequence_keeps_its_first_states(tmp_path):
    library = ts.compile(of_lengths(tmp_path, "LSTM", 1), config=CONFIG)
    draw = functools.partial(np.random.default_rng(0).standard_normal, dtype="f4")
    hidden, cell = draw((1, 2, 5)), draw((1, 2, 5))
    rows, *last = library(draw((4, 2, 3)), np.array([0, 2], "i4"), hidden, cell)
    assert not rows[:, :, 0].any()
    for found, first in zip(last, (hidden, cell), strict=True):
        np.testing.assert_array_equal(found[:, 0], first[:, 0])


def of_bytes(folder, directions, batch, **attributes):
    """Return an LSTM of bytes with open steps and lengths."""
    path = of_lengths(folder, "LSTM", directions, **attributes)
    plain = onnx.load(path)
    for given in plain.graph.input:
        axis = given.type.tensor_type.shape.dim[0 if given.name == "l" else 1]
        axis.CopyFrom(onnx.TensorShapeProto.Dimension(**batch))
    save(plain, path)
    quantization = pytest.importorskip("onnxruntime.quantization")
    quantization.quantize_dynamic(path, folder / "q.onnx")
    model = onnx.load(folder / "q.onnx")
    assert [n.op_type for n in model.graph.node] == ["DynamicQuantizeLSTM"]
    return model


@pytest.mark.grid
@pytest.mark.parametrize(
    ("direction", "batch", "cases"),
    [
        ("forward", {"dim_param": "n"}, [[3, 1, 2], [4, 1], [1, 4, 4, 1, 3], [6]]),
        ("bidirectional", {"dim_value": 1}, [[1], [3], [6]]),
    ],
)
def test_sequences_in_bytes_of_their_own_lengths(tmp_path, direction, batch, cases):
    """Behind its end, the state of a sequence counts as zero in the scale of all of them."""
    directions = 2 if direction == "bidirectional" else 1
    model = of_bytes(tmp_path, directions, batch, direction=direction)
    library = ts.compile(tmp_path / "q.onnx", config=CONFIG)
    assert library.inputs[0].shape[0] == "t"
    draw = functools.partial(np.random.default_rng(5).standard_normal, dtype="f4")
    for lengths in cases:
        x = draw((7, len(lengths), 3)) * np.linspace(1, 4, len(lengths), dtype="f4")[:, None]
        states = [draw((directions, len(lengths), 5)) for _ in range(2)]
        given = [x, np.array(lengths, "i4"), *states]
        for found, wanted in zip(library(*given), by_onnxruntime(model, given), strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-5)
