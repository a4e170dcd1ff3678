"""What a caller says about the inputs of a file: examples, shapes, bounds."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch.export import Dim

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse_runtime.errors import TensorError

CONFIG = ts.Config(measure=False)


@pytest.fixture
def path(tmp_path):
    """Return a file whose inputs have two names for one batch, an open length and a fixed axis."""
    inputs = {"x": ["unk__1", "L", 8], "state": ["unk__2", 1, 8]}
    made = graph([node("Add", "x state", "y")], inputs, ["y"])
    made.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [None] * 3)
    )
    onnx.save(made, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


X, STATE = torch.zeros(3, 5, 8), torch.zeros(3, 1, 8)


def _shapes(model):
    return [spec.shape for spec in model.inputs]


def test_examples_fix_the_shapes(path):
    assert _shapes(ts.load(path, (X, STATE))) == [(3, 5, 8), (3, 1, 8)]
    assert _shapes(ts.load(path, {"state": STATE, "x": X})) == [(3, 5, 8), (3, 1, 8)]
    library = ts.compile(path, (X.numpy(), STATE.numpy()), config=CONFIG)
    assert library.inputs[0].shape == (3, 5, 8)


def test_extents_stay_open_beside_examples(path):
    assert _shapes(ts.load(path, (X, STATE), dynamic_batch=True)) == [
        ("unk__1", 5, 8),
        ("unk__1", 1, 8),
    ]
    model = ts.load(path, (X, STATE), dynamic_shapes={"x": {1: Dim("length", min=2, max=9)}})
    assert _shapes(model) == [(3, "L", 8), (3, 1, 8)]
    assert model.bounds == {"L": (2, 9)}


def test_shapes_by_name_and_in_order(path):
    assert _shapes(ts.load(path, shapes={"x": (4, "T", 8)})) == [(4, "T", 8), (4, 1, 8)]
    assert _shapes(ts.load(path, shapes=[(4, 2, 8), ("B", 1, 8)])) == [(4, 2, 8), (4, 1, 8)]


def test_bounds(path):
    model = ts.load(path, bounds={"L": 32, "unk__1": (2, 4)})
    assert model.bounds["L"] == (1, 32)
    library = ts.compile(model, config=CONFIG)
    with pytest.raises(TensorError, match="L = 1 to 32"):
        library.run(np.zeros((2, 33, 8), np.float32), np.zeros((2, 1, 8), np.float32))


def test_two_names_of_one_extent_are_united(path):
    model = ts.load(path)
    assert _shapes(model) == [("unk__1", "L", 8), ("unk__1", 1, 8)]
    (y,) = ts.compile(model, config=CONFIG).run(
        np.ones((2, 3, 8), np.float32), np.ones((2, 1, 8), np.float32)
    )
    np.testing.assert_array_equal(np.from_dlpack(y), np.full((2, 3, 8), 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"example_inputs": (X,)}, "have none for 'state'"),
        ({"example_inputs": (X, STATE, X)}, "are 3; expected 2"),
        ({"example_inputs": (X, STATE.double())}, "is given float64; expected float32"),
        ({"example_inputs": (X, "text")}, "is given a str"),
        ({"example_inputs": (X[..., :4], STATE)}, "is given 4 in axis 2, which the file fixes"),
        ({"example_inputs": (X[0], STATE)}, "is given 2 axes"),
        ({"example_inputs": {"z": X}}, "name 'z'"),
        ({"shapes": {"z": (1,)}}, "name 'z', which the file does not have; expected 'x', 'state'"),
        ({"shapes": {"x": (0, 1, 8)}}, "is given the extent 0"),
        ({"shapes": [(1, 1, 8)]}, "are 1; expected one for each of x, state"),
        ({"bounds": {"Q": 4}}, "name 'Q'"),
        ({"bounds": {"L": (5, 4)}}, "are 5 to 4"),
        ({"bounds": {"L": "4"}}, "a number or a pair"),
        ({"dynamic_batch": True}, "example inputs beside it"),
    ],
)
def test_what_contradicts_the_file_is_refused(path, options, message):
    with pytest.raises(ts.InputError, match=message):
        ts.load(path, **options)


def test_extents_without_a_usable_name_are_named(tmp_path):
    model = graph([node("Relu", "x", "y")], {"x": ["p2o.Dim.0", -1, "?", None]}, ["y"])
    onnx.save(model, tmp_path / "model.onnx")
    assert _shapes(ts.load(tmp_path / "model.onnx")) == [("p2o_Dim_0", "x_1", "x_2", "x_3")]


def test_examples_must_fit_what_is_exported():
    program = torch.export.export(torch.nn.Linear(8, 4), (torch.zeros(2, 8),))
    assert ts.load(program, (torch.zeros(2, 8),)).inputs[0].shape == (2, 8)
    for wrong in ((torch.zeros(3, 8),), (torch.zeros(2, 8).double(),), ()):
        with pytest.raises(ts.InputError, match="input"):
            ts.load(program, wrong)
    with pytest.raises(ts.InputError, match="shapes: are given for a source"):
        ts.load(program, shapes={"x": (1, 8)})
