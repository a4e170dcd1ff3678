"""Nodes are run by their converters or functions, or refused with their names."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.graphs import eager, expected, graph, node
from tvm_sparse.errors import InputError, SparseError

X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def test_an_attribute_that_nothing_reads_is_refused():
    model = graph([node("Relu", "x", "y", consumed_inputs=[1])], {"x": [2, 3]}, ["y"])
    with pytest.raises(SparseError, match=r"node 'y': operator 'Relu': its attribute 'consumed_in"):
        eager(model, X)


def test_an_input_that_has_to_be_known_is_named():
    nodes = [node("Reshape", "x shape", "y")]
    model = graph(nodes, {"x": [2, 3], "shape": [1]}, ["y"])
    with pytest.raises(SparseError, match=r"operator 'Reshape': its input 'shape' is computed or"):
        eager(model, X, np.ones(1, np.float32))


def test_a_value_that_nothing_gives_is_named():
    model = graph([node("Add", "x missing", "y")], {"x": [2, 3]}, ["y"])
    with pytest.raises(InputError, match=r"node 'y': reads 'missing', which nothing before it"):
        eager(model, X)


def test_what_torch_refuses_names_the_node():
    model = graph([node("Reshape", "x shape", "y")], {"x": [2, 3]}, ["y"], {"shape": np.array([4])})
    with pytest.raises(InputError, match=r"node 'y': operator 'Reshape' cannot be imported \("):
        eager(model, X)


def _own(name: str, nodes: list, **attributes: float):
    defaults = [helper.make_attribute(key, value) for key, value in attributes.items()]
    return helper.make_function(
        "own", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 21)], [], defaults
    )


def test_functions_of_the_model_read_attributes_and_defaults():
    inner = node("LeakyRelu", "a", "b", alpha=0.0)
    inner.attribute[0].ref_attr_name = "slope"
    inner.attribute[0].ClearField("f")
    nodes = [
        node("Leaky", "x", "p", domain="own"),
        node("Leaky", "p", "y", domain="own", slope=0.5),
    ]
    model = graph(
        nodes,
        {"x": [2, 3]},
        ["y"],
        functions=[_own("Leaky", [inner], slope=0.25)],
        domains={"own": 1},
    )
    (found,) = eager(model, X)
    np.testing.assert_array_equal(found, np.where(X < 0, X * 0.125, X))


def test_functions_that_call_one_another_without_end_are_refused():
    call = node("Again", "a", "b", domain="own")
    model = graph(
        [node("Again", "x", "y", domain="own")],
        {"x": [2, 3]},
        ["y"],
        functions=[_own("Again", [call])],
        domains={"own": 1},
    )
    with pytest.raises(SparseError, match="functions lie too deep in one another"):
        eager(model, X)


def test_onnx_functions_stand_in_for_converters():
    model = graph([node("MeanVarianceNormalization", "x", "y", axes=[1])], {"x": [2, 3]}, ["y"])
    np.testing.assert_allclose(eager(model, X)[0], expected(model, X)[0], rtol=1e-5)
    loss = [
        node("Constant", "", "t", value_ints=[2, 0]),
        node("NegativeLogLikelihoodLoss", "x t", "y"),
    ]
    model = graph(loss, {"x": [2, 3]}, ["y"])
    np.testing.assert_allclose(eager(model, X)[0], expected(model, X)[0], rtol=1e-5)


@pytest.mark.parametrize("operator", ["Optional", "NonZero", "StringNormalizer", "Unique"])
def test_operators_without_a_fixed_result_are_refused_by_name(operator):
    model = graph([node(operator, "x", "y")], {"x": [2, 3]}, ["y"])
    with pytest.raises(SparseError, match=f"operator '{operator}'"):
        eager(model, X)
