"""A network is run on shapes alone before it is traced, which shows the sizes that do not fit."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.frontends.onnx import tracing
from tvm_sparse.frontends.onnx.inputs import read_inputs
from tvm_sparse.frontends.onnx.network import Network
from tvm_sparse.frontends.onnx.rehearsal import misfit, shapes_at
from tvm_sparse.frontends.onnx.weights import take_weights
from tvm_sparse_runtime.errors import TensorError

CONFIG = ts.Config(measure=False, cache=False)
ZERO = np.array([0])
LINES = [(1, 3, 16, 40), (3, 3, 16, 41), (2, 3, 16, 7)]


def _reader():
    """Return a reader of lines of text: planes become one row each, which its extents say."""
    draw = np.random.default_rng(0)
    weights = {
        "w1": draw.standard_normal((8, 3, 3, 3)).astype(np.float32) / 5,
        "w2": draw.standard_normal((8, 8, 3, 3)).astype(np.float32) / 8,
        "letters": draw.standard_normal((8, 10)).astype(np.float32),
        "depth": np.array([8]),
        **{f"n{i}": np.array([i]) for i in range(4)},
    }
    plane = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        node("Conv", "x w1", "a", strides=[2, 2], **plane),
        node("Relu", "a", "b"),
        node("Conv", "b w2", "c", strides=[2, 1], **plane),
        node("HardSwish", "c", "d"),
        node("AveragePool", "d", "e", kernel_shape=[3, 2], strides=[3, 2]),
        node("Transpose", "e", "f", perm=[0, 2, 3, 1]),
        node("Shape", "f", "shape"),
        node("Slice", "shape n0 n1", "batch"),
        node("Slice", "shape n2 n3", "width"),
        node("Concat", "batch n1 width depth", "sizes", axis=0),
        node("Reshape", "f sizes", "g"),
        node("Squeeze", "g n1", "h"),
        node("MatMul", "h letters", "i"),
        node("Softmax", "i", "y", axis=-1),
    ]
    return graph(nodes, {"x": ["n", 3, "h", "w"]}, ["y"], weights, opset=17)


def _network(model):
    """Return the network of a graph, and its inputs."""
    inputs = read_inputs(model.graph)
    return Network(model, take_weights(model)).eval(), inputs


@pytest.fixture
def traces(monkeypatch):
    """Sizes that were traced at."""
    found = []

    def noted(name):
        was = getattr(tracing, name)

        def call(network, inputs, *given):
            found.append((name, given[-2] if name == "automatic" else given[-1]))
            return was(network, inputs, *given)

        monkeypatch.setattr(tracing, name, call)

    noted("exported")
    noted("automatic")
    return found


def test_shapes_are_those_of_a_run():
    network, inputs = _network(_reader())
    for n, _, h, w in LINES:
        ((batch, width, letters),) = shapes_at(network, inputs, {"n": n, "h": h, "w": w})
        assert (batch, width, letters) == (n, ((w - 1) // 2 + 1) // 2, 10)


def test_sizes_that_do_not_fit_say_why():
    network, inputs = _network(_reader())
    assert misfit(network, inputs, {"n": 2, "h": 16, "w": 30}) is None
    assert "AveragePool" in str(misfit(network, inputs, {"n": 2, "h": 6, "w": 30}))
    assert "Reshape" in str(misfit(network, inputs, {"n": 2, "h": 96, "w": 30}))


def test_what_a_trace_tells_more_of_is_no_misfit():
    """An extent that must be one, or another one, is left to it."""
    squeezed = graph([node("Squeeze", "x axis", "y")], {"x": ["n", "m"]}, ["y"], {"axis": ZERO})
    assert misfit(*_network(squeezed), {"n": 4, "m": 6}) is None
    weights = {"w": np.zeros((1, 9, 2), np.float32), "r": np.zeros((1, 9, 3), np.float32)}
    recurrent = node("GRU", "x w r - - h", "y", hidden_size=3)
    shapes = {"x": [5, "n", 2], "h": [1, "m", 3]}
    assert misfit(*_network(graph([recurrent], shapes, ["y"], weights)), {"n": 4, "m": 6}) is None


def test_all_sizes_are_tried_where_none_seems_to_fit(traces, tmp_path, monkeypatch):
    onnx.save(graph([node("Relu", "x", "y")], {"x": ["n", 3]}, ["y"]), tmp_path / "m.onnx")
    monkeypatch.setattr(tracing, "misfit", lambda *_: ts.errors.InputError("it", "never fits"))
    assert ts.load(tmp_path / "m.onnx").inputs[0].shape == ("n", 3)
    assert [name for name, _ in traces] == ["automatic"]


@pytest.mark.grid
@pytest.mark.parametrize("numbers", ["float32", "int8"])
def test_a_reader_of_text_is_traced_once_at_sizes_that_fit(tmp_path, traces, numbers):
    path, draw = tmp_path / "reader.onnx", np.random.default_rng(1)
    onnx.save(_reader(), path)
    if numbers == "int8":
        ts.quantize_onnx(path, [{"x": draw.random(LINES[0], np.float32)}], output=path)
    traces.clear()
    library, session = ts.compile(path, config=CONFIG), onnxruntime.InferenceSession(path)
    assert traces == [("automatic", {"n": 4, "h": 14, "w": 22})]
    assert library.inputs[0].shape == ("n", 3, "h", "w")
    for shape in LINES:
        x = draw.random(shape, np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_allclose(library(x), wanted, atol=1e-5 if numbers == "float32" else 0.03)
    with pytest.raises(TensorError, match="h = 9 to 20"):
        library(np.zeros((1, 3, 48, 40), np.float32))
