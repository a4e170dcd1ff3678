"""Branches that are known are taken, loops of known length are unrolled."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

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
