"""Old versions of operators, which ONNX's node tests no longer have."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnx import TensorProto
from onnx.numpy_helper import from_array

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager, expected, graph, node
from tests.quantized_networks import typed
from tvm_sparse.frontends.onnx import load_onnx

X = np.random.default_rng(0).standard_normal((2, 3, 4, 4)).astype(np.float32)
ROW = {"w": np.arange(1, 4, dtype=np.float32)}

OLD = {
    "Clip": (10, node("Clip", "x", "y", min=-0.5, max=0.5)),
    "Pad": (10, node("Pad", "x", "y", pads=[0, 0, 1, 2, 0, 0, 0, 1], value=2.0)),
    "ReduceMean": (13, node("ReduceMean", "x", "y", axes=[2, 3], keepdims=0)),
    "Slice": (9, node("Slice", "x", "y", starts=[1, -3], ends=[9, -1], axes=[0, 3])),
    "Split": (11, node("Split", "x", "z y", axis=1, split=[1, 2])),
    "Squeeze": (11, node("Unsqueeze", "x", "y", axes=[0, 3])),
    "Upsample": (9, node("Upsample", "x s", "y", mode="nearest")),
}


@pytest.mark.parametrize("operator", OLD)
def test_old_versions_mean_what_they_did(operator):
    opset, made = OLD[operator]
    scales = {"s": np.array([1, 1, 2, 3], np.float32)}
    model = graph([made], {"x": X.shape}, ["y"], {**ROW, **scales}, opset=opset)
    np.testing.assert_allclose(eager(model, X)[0], expected(model, X)[0], rtol=1e-5, atol=1e-6)


def test_the_largest_by_an_attribute():
    model = graph([node("TopK", "x", "y z", k=2, axis=3)], {"x": X.shape}, ["y"], opset=9)
    np.testing.assert_array_equal(eager(model, X)[0], -np.sort(-X, 3)[..., :2])


def test_softmax_once_saw_a_matrix():
    model = graph([node("Softmax", "x", "y", axis=2)], {"x": X.shape}, ["y"], opset=11)
    (found,) = eager(model, X)
    np.testing.assert_allclose(found.sum((2, 3)), np.ones((2, 3)), rtol=1e-5)
    np.testing.assert_allclose(found / found[..., :1, :1], np.exp(X - X[..., :1, :1]), rtol=1e-4)


@pytest.mark.parametrize("exponent", [2.0, 3, 0.5, [3.0]])
def test_squares_and_cubes_are_products(exponent, tmp_path):
    weights = {"w": np.asarray(exponent, np.int64 if exponent == 3 else np.float32)}
    model = graph([node("Pow", "x w", "y")], {"x": X.shape}, ["y"], weights)
    x = np.maximum(X, 0) if exponent == 0.5 else X
    np.testing.assert_allclose(eager(model, x)[0], expected(model, x)[0], rtol=1e-6)
    onnx.save(typed(model, X.ndim), tmp_path / "model.onnx")
    text = str(load_onnx(tmp_path / "model.onnx").module)
    assert ("R.power" in text) == (exponent == 0.5)


def test_batch_norm_of_planes():
    made = node("BatchNormalization", "x w w w w", "y", epsilon=0.5, spatial=1)
    (found,) = eager(graph([made], {"x": X.shape}, ["y"], ROW, opset=8), X)
    w = ROW["w"].reshape(-1, 1, 1)
    np.testing.assert_allclose(found, (X - w) / np.sqrt(w + 0.5) * w + w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("ceil_mode", [0, 1])
@pytest.mark.parametrize("pads", [[0, 0], [1, 1], [0, 1], [2, 0]])
@pytest.mark.parametrize("rank", [1, 2])
def test_the_largest_byte_of_each_window(rank, pads, ceil_mode):
    shape = (2, 3, *(7, 4)[:rank])
    x = np.random.default_rng(1).integers(-128, 128, shape).astype(np.float32)
    places = {
        "kernel_shape": [3] * rank,
        "strides": [3, 2][:rank],
        "pads": np.repeat(pads, rank).tolist(),
    }
    nodes = [
        node("Cast", "x", "bytes", to=TensorProto.INT8),
        node("MaxPool", "bytes", "largest", ceil_mode=ceil_mode, **places),
        node("Cast", "largest", "y", to=TensorProto.FLOAT),
    ]
    model = graph(nodes, {"x": shape}, ["y"], opset=22)
    session = onnxruntime.InferenceSession(typed(model, 2 + rank).SerializeToString())
    np.testing.assert_array_equal(eager(model, x)[0], session.run(None, {"x": x})[0])


@pytest.mark.grid
@pytest.mark.parametrize("places", ["even", "uneven", "tiles"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_largest_of_windows_on_open_planes(rank, places, tmp_path):
    attributes = {
        "even": {"kernel_shape": [3] * rank, "strides": [2] * rank, "pads": [1] * 2 * rank},
        "uneven": {"kernel_shape": [3] * rank, "strides": [2] * rank, "pads": [1, 0] * rank},
        "tiles": {"kernel_shape": [2] * rank, "strides": [2] * rank},
    }[places]
    shape = ("n", 4, *("h", "w", "d")[:rank])
    model = typed(graph([node("MaxPool", "x", "y", **attributes)], {"x": shape}, ["y"]), 2 + rank)
    onnx.save(model, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    library = ts.compile(tmp_path / "model.onnx", config=ts.Config(measure=False, tuned=False))
    rng = np.random.default_rng(1)
    for extents in ((17, 20, 5), (4, 3, 8), (9, 5, 6)):
        x = rng.standard_normal((2, 4, *extents[:rank]), np.float32)
        np.testing.assert_array_equal(library(x), session.run(None, {"x": x})[0])


PADS = np.array([0, 0, 1, 2, 0, 0, 0, 1])


@pytest.mark.parametrize("value", [0.0, -2.5, -np.inf])
def test_a_known_number_pads_without_a_choice(value, monkeypatch):
    made = [
        node("Constant", "", "v", value=from_array(np.array([value], np.float32))),
        node("Pad", "x p v", "y"),
    ]
    model = graph(made, {"x": X.shape}, ["y"], {"p": PADS})
    wanted = expected(model, X)[0]

    def refused(*_args):
        raise AssertionError("elements are chosen one by one")

    monkeypatch.setattr(torch, "where", refused)
    np.testing.assert_array_equal(eager(model, X)[0], wanted)


def test_a_number_that_is_computed_pads():
    made = [node("ReduceMax", "x", "v", keepdims=0), node("Pad", "x p v", "y")]
    model = graph(made, {"x": X.shape}, ["y"], {"p": PADS}, opset=13)
    np.testing.assert_array_equal(eager(model, X)[0], expected(model, X)[0])


def test_whole_numbers_pad():
    made = [node("Cast", "x", "i", to=7), node("Pad", "i p v", "y")]
    numbers = {"p": PADS, "v": np.array(2**60 + 1)}
    model = graph(made, {"x": X.shape}, ["y"], numbers)
    np.testing.assert_array_equal(eager(model, X)[0], expected(model, X)[0])
