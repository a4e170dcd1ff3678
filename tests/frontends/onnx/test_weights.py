"""Weights that are no initializers of the whole graph: their names and values."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.frontends.onnx import load_onnx, read_onnx
from tvm_sparse.frontends.onnx.weights import take_weights

X = np.random.default_rng(0).standard_normal((4, 16)).astype(np.float32)
WEIGHT = np.random.default_rng(1).standard_normal((16, 24)).astype(np.float32)
WEIGHT[np.random.default_rng(2).random(WEIGHT.shape) < 0.75] = 0
CONFIG = ts.Config(measure=False, tuned=False)


def _constant(name, output="w", value=WEIGHT, **attributes):
    attributes = attributes or {"value": numpy_helper.from_array(value)}
    return helper.make_node("Constant", [], [output], name=name, **attributes)


def _sparse(indices=None):
    flat = np.flatnonzero(WEIGHT)
    places = flat if indices is None else indices(flat)
    values = numpy_helper.from_array(WEIGHT.reshape(-1)[flat], "w")
    return helper.make_sparse_tensor(values, numpy_helper.from_array(places, "i"), WEIGHT.shape)


def _saved(tmp_path, nodes, weights=None):
    onnx.save(graph(nodes, {"x": X.shape}, ["y"], weights), tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.grid
@pytest.mark.parametrize(("name", "called"), [("encoder/fc", "encoder/fc"), ("", "w")])
def test_a_constant_is_called_after_its_node(name, called, tmp_path):
    path = _saved(tmp_path, [_constant(name), node("MatMul", "x w", "y")])
    library = ts.compile(path, config=CONFIG)
    assert [decision.layer for decision in library.decisions] == [called]
    assert [row.layer for row in ts.inspect(path).rows] == [called]
    np.testing.assert_allclose(library(X), X @ WEIGHT, rtol=1e-4, atol=1e-5)


def test_names_that_are_taken_get_a_number(tmp_path):
    nodes = [_constant("w", "a"), _constant("w", "b", WEIGHT.T.copy())]
    nodes += [node("MatMul", "x a", "m"), node("MatMul", "m b", "n"), node("MatMul", "n w", "y")]
    weights = take_weights(read_onnx(_saved(tmp_path, nodes, {"w": WEIGHT})))
    assert list(weights) == ["w", "w_1", "w_2"]
    np.testing.assert_array_equal(weights["w_2"], WEIGHT.T)


@pytest.mark.parametrize(
    "indices", [None, lambda flat: np.stack(np.unravel_index(flat, WEIGHT.shape), 1)]
)
def test_a_sparse_constant_is_its_dense_one(indices, tmp_path):
    nodes = [_constant("fc", sparse_value=_sparse(indices)), node("MatMul", "x w", "y")]
    model = load_onnx(_saved(tmp_path, nodes))
    np.testing.assert_array_equal(model.weights["fc"], WEIGHT)


def test_indices_outside_are_refused(tmp_path):
    made = graph([node("MatMul", "x w", "y")], {"x": X.shape}, ["y"])
    for wrong in (lambda flat: flat + 1000, lambda flat: -flat, lambda flat: flat[:-1]):
        del made.graph.sparse_initializer[:]
        made.graph.sparse_initializer.append(_sparse(wrong))
        onnx.save(made, tmp_path / "model.onnx")
        with pytest.raises(ts.InputError, match=r"weight 'w'|no sound ONNX model"):
            load_onnx(tmp_path / "model.onnx")


def test_weights_of_branches_keep_their_names(tmp_path):
    def made(name, nodes, held):
        output = helper.make_tensor_value_info(f"{name}_y", TensorProto.FLOAT, [4, 24])
        return helper.make_graph(nodes, name, [], [output], held)

    held = [numpy_helper.from_array(2 * WEIGHT, "other")]
    either = {
        "then_branch": made("a", [_constant("first"), node("MatMul", "x w", "a_y")], []),
        "else_branch": made("b", [node("MatMul", "x other", "b_y")], held),
    }
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Cast", "sum", "yes", to=TensorProto.BOOL),
        node("If", "yes", "y", **either),
    ]
    library = ts.compile(_saved(tmp_path, nodes), config=CONFIG)
    assert {decision.layer for decision in library.decisions} == {"first", "other"}
    np.testing.assert_allclose(library(X), X @ WEIGHT, rtol=1e-4, atol=1e-5)


def test_the_models_own_function_goes_before_ours(tmp_path):
    body = helper.make_function(
        "com.microsoft",
        "Gelu",
        ["a"],
        ["b"],
        [node("Neg", "a", "b")],
        [helper.make_opsetid("", 21)],
    )
    nodes = [helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")]
    made = graph(nodes, {"x": X.shape}, ["y"], functions=[body], domains={"com.microsoft": 1})
    onnx.save(made, tmp_path / "model.onnx")
    np.testing.assert_array_equal(ts.compile(tmp_path / "model.onnx", config=CONFIG)(X), -X)
