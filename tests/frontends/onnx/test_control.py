"""Branches that are known are taken, loops of known length are unrolled."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager, expected, graph, node
from tvm_sparse.errors import SparseError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def _info(name, kind=TensorProto.FLOAT, shape=None):
    return helper.make_tensor_value_info(name, kind, shape)


def _branches(second="Neg"):
    return {
        "then_branch": helper.make_graph([node("Relu", "x", "a")], "then", [], [_info("a")]),
        "else_branch": helper.make_graph([node(second, "x", "b")], "else", [], [_info("b")]),
    }


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("value", [True, False])
def test_branches_read_the_graph_around_them(known, value):
    model = graph([node("If", "c", "y", **_branches())], {"x": [2, 3]}, ["y"])
    if known:
        model.graph.initializer.append(helper.make_tensor("c", TensorProto.BOOL, [], [value]))
        inputs = (X,)
    else:
        model.graph.input.append(_info("c", TensorProto.BOOL, []))
        inputs = (X, np.array(value))
    np.testing.assert_array_equal(eager(model, *inputs)[0], expected(model, *inputs)[0])


def test_branches_of_other_shapes_are_refused():
    model = graph([node("If", "c", "y", **_branches("ReduceSum"))], {"x": [2, 3]}, ["y"])
    model.graph.input.append(_info("c", TensorProto.BOOL, []))
    with pytest.raises(SparseError, match="node 'y': operator 'If': its branches give"):
        eager(model, X, np.array(True))


def _rate_model(limits):
    """Return a model that asks for a rate: each branch wants another least length."""
    branches = {}
    for name, kernel in zip(("then_branch", "else_branch"), limits, strict=True):
        nodes = [
            node("Conv", f"x w{kernel}", f"c{kernel}"),
            node("ReduceSum", f"c{kernel} a", name),
        ]
        branches[name] = helper.make_graph(nodes, name, [], [_info(name)])
    weights = {f"w{k}": np.ones((1, 1, k), np.float32) for k in limits}
    parts = {**weights, "a": np.array([2]), "k": np.array(16000)}
    nodes = [node("Equal", "rate k", "c"), node("If", "c", "y", **branches)]
    model = graph(nodes, {"x": [1, 1, "n"]}, ["y"], parts, opset=17)
    model.graph.input.append(_info("rate", TensorProto.INT64, []))
    model.graph.output[0].CopyFrom(_info("y", shape=[1, 1, 1]))
    return model


@pytest.mark.grid
@pytest.mark.parametrize("rate", [8000, 16000])
def test_both_branches_are_computed_at_sizes_that_both_take(tmp_path, rate):
    onnx.save(_rate_model((40, 60)), tmp_path / "model.onnx")
    library = ts.compile(tmp_path / "model.onnx", config=ts.Config(measure=False))
    assert library.bounds["n"] == (60, None)
    x = np.ones((1, 1, 70), np.float32)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    wanted = session.run(None, {"x": x, "rate": np.array(rate)})[0]
    found = np.from_dlpack(library.run(x, np.array(rate))[0])
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_branch_that_fits_no_size_names_the_constant_that_decides(tmp_path):
    model = _rate_model((40, 60))
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 50
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(SparseError, match=r"--constant rate=16000"):
        ts.load(tmp_path / "model.onnx")
    fixed = ts.load(tmp_path / "model.onnx", constants={"rate": np.array(16000)})
    assert [spec.name for spec in fixed.inputs] == ["x"]


def test_whether_an_open_extent_is_one_decides_a_range(tmp_path):
    """Exports of scripted modules ask for it where an axis may be squeezed."""
    shape = [node("Shape", "c", "s"), node("Gather", "s last", "n"), node("Equal", "n one", "is")]
    squeezed = helper.make_graph([node("Squeeze", "c last", "a")], "then", [], [_info("a")])
    kept = helper.make_graph([node("Identity", "c", "b")], "else", [], [_info("b")])
    chosen = node("If", "is", "z", then_branch=squeezed, else_branch=kept)
    nodes = [node("Conv", "x w", "c", strides=[8]), *shape, chosen, node("MatMul", "z m", "y")]
    rng = np.random.default_rng(0)
    parts = {"w": rng.random((4, 1, 8), np.float32), "m": rng.random((4, 3), np.float32)}
    parts |= {"last": np.array([-1]), "one": np.array([1])}
    model = graph(nodes, {"x": ["b", 1, "n"]}, ["y"], parts, opset=17)
    model.graph.output[0].CopyFrom(_info("y", shape=[None, 3]))
    onnx.save(model, tmp_path / "model.onnx")
    library = ts.compile(tmp_path / "model.onnx", config=ts.Config(measure=False))
    assert library.bounds["n"] == (8, 15)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for batch, length in ((1, 8), (3, 15)):
        x = rng.random((batch, 1, length), np.float32)
        np.testing.assert_allclose(library(x), session.run(None, {"x": x})[0], rtol=1e-5)


def _loop(condition):
    body = helper.make_graph(
        [
            node("Cast", "i", "number", to=TensorProto.FLOAT),
            node("Add", "sum number", "next"),
            node("Constant", "", "limit", value_int=2),
            *condition,
            node("Mul", "next next", "square"),
        ],
        "body",
        [_info("i", TensorProto.INT64, []), _info("go", TensorProto.BOOL, []), _info("sum")],
        [_info("on", TensorProto.BOOL, []), _info("next"), _info("square")],
    )
    return graph(
        [node("Loop", "n - x", "y squares", body=body)],
        {"x": [2, 3]},
        ["y", "squares"],
        {"n": np.array(5)},
    )


def test_a_loop_ends_by_its_count_or_by_a_known_condition():
    for condition in ([node("Identity", "go", "on")], [node("Less", "i limit", "on")]):
        model = _loop(condition)
        if condition[0].op_type == "Identity":
            model.graph.initializer.append(helper.make_tensor("t", TensorProto.BOOL, [], [True]))
            model.graph.node[0].input[1] = "t"
        last, squares = eager(model, X)
        # Each round's value is a row of a new first axis.
        rounds = 5 if condition[0].op_type == "Identity" else 3
        rows = [(X + sum(range(i + 1))) ** 2 for i in range(rounds)]
        np.testing.assert_array_equal(squares, np.stack(rows))
        np.testing.assert_array_equal(last, X + sum(range(rounds)))


def test_a_loop_that_ends_by_values_is_refused():
    nodes = [node("ReduceMax", "next", "most", keepdims=0), node("Less", "most most", "on")]
    with pytest.raises(SparseError, match="ends by a condition that is known at run time"):
        eager(_loop(nodes), X)
