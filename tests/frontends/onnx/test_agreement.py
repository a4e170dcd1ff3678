"""States and lengths of recurrent layers fit the batch: they are not spread over another one."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx.agreement import reason

STEPS, INPUTS, HIDDEN = 3, 6, 8


def _saved(tmp_path, batch, state=None, lengths=None, given=None):
    """Return the file of a GRU whose state is a weight of batch ``state`` or an input ``given``."""
    rng = np.random.default_rng(0)
    shapes = {"w": (1, 3 * HIDDEN, INPUTS), "r": (1, 3 * HIDDEN, HIDDEN)}
    shapes |= {"h": (1, state, HIDDEN)} if state else {}
    weights = {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}
    weights |= {"l": np.array(lengths, np.int32)} if lengths else {}
    inputs = {"x": [STEPS, batch, INPUTS]} | ({"h": [1, given, HIDDEN]} if given else {})
    names = f"x w r - {'l' if lengths else '-'} {'h' if state or given else '-'}"
    model = graph([node("GRU", names, "y", hidden_size=HIDDEN)], inputs, ["y"], weights)
    shape = [STEPS, 1, batch, HIDDEN]
    value = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, shape)
    model.graph.output[0].CopyFrom(value)
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.grid
@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize("what", ["state", "lengths"])
def test_an_open_batch_is_that_of_what_is_constant(tmp_path, what, batch):
    given = {"state": batch} if what == "state" else {"lengths": [2] * batch}
    path = _saved(tmp_path, "n", **given)
    assert ts.load(path).inputs[0].shape == (STEPS, batch, INPUTS)
    session = onnxruntime.InferenceSession(path)
    with pytest.raises(Exception, match=r"initial_h|sequence_lens"):
        session.run(None, {"x": np.zeros((STEPS, batch + 1, INPUTS), np.float32)})
    if batch == 4:
        x = np.random.default_rng(1).standard_normal((STEPS, batch, INPUTS)).astype(np.float32)
        found = ts.compile(path, config=ts.Config(measure=False, cache=False))(x)
        np.testing.assert_allclose(found, session.run(None, {"x": x})[0], atol=1e-5)


def test_open_batches_are_united(tmp_path):
    shapes = [x.shape for x in ts.load(_saved(tmp_path, "n", given="m")).inputs]
    assert shapes[0][1] == shapes[1][1] and isinstance(shapes[0][1], str)


def test_an_open_state_is_as_many_as_a_known_batch(tmp_path):
    shapes = [x.shape for x in ts.load(_saved(tmp_path, 4, given="m")).inputs]
    assert shapes == [(STEPS, 4, INPUTS), (1, 4, HIDDEN)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"state": 1}, r"'initial_h' has the shape \[1, 1, 8\]; expected \[1, 4, 8\]"),
        ({"lengths": [2]}, r"'sequence_lens' has the shape \[1\]; expected \[4\]"),
    ],
)
def test_another_batch_is_refused(tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        ts.load(_saved(tmp_path, 4, **given))


def test_a_batch_outside_its_bounds_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"initial_h.*\[1, 1, 8\]; .*\[1, open, 8\]"):
        ts.load(_saved(tmp_path, "n", state=1), bounds={"n": (2, 8)})


def test_extents_that_do_not_agree_are_told_without_the_symbols_of_torch(tmp_path):
    """The two paths of a detector's neck agree at multiples of four only."""
    weights = {"w": np.ones((2, 2, 3, 3), np.float32), "k": np.array([1, 1, 2, 2], np.float32)}
    small = {"strides": [2, 2], "pads": [1] * 4}
    nodes = [node("Conv", "x w", "a", **small), node("Conv", "a w", "b", **small)]
    nodes += [node("Resize", "b - k", "c"), node("Add", "c a", "y")]
    onnx.save(graph(nodes, {"x": [1, 2, "h", 9]}, ["y"], weights, opset=17), tmp_path / "m.onnx")
    with pytest.raises(ts.SparseError) as error:
        ts.load(tmp_path / "m.onnx")
    assert not re.search(r"\bs\d+\b", str(error.value))
    assert "--shape x=1,2,h,9" in str(error.value)


def test_shapes_that_do_not_agree_are_told_without_the_types_of_torch():
    error = RuntimeError("Attempting to broadcast; expected torch.Size([3, 4])")
    text = reason(error, [torch.zeros(3, 4), torch.zeros(2, 4)])
    assert text == "inputs of [3, 4] and [2, 4], which do not agree"
