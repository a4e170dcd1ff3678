"""Arithmetic on shapes is done at import, with symbols too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager, expected, graph, node
from tvm_sparse.errors import SparseError

HEADS = [
    node("Shape", "x", "shape"),
    node("Constant", "", "two", value_ints=[0, 1]),
    node("Constant", "", "heads", value_ints=[2]),
    node("Constant", "", "last", value_int=2),
    node("Gather", "shape two", "lead"),
    node("Gather", "shape last", "width"),
    node("Div", "width heads", "each"),
    node("Concat", "lead heads each", "target", axis=0),
    node("Reshape", "x target", "split"),
    node("Transpose", "split", "y", perm=[0, 2, 1, 3]),
]


def test_a_shape_is_taken_apart_and_put_together(tmp_path):
    model = graph(HEADS, {"x": ["batch_size", "length", 8]}, ["y"])
    model.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 2, "m", 4])
    )
    onnx.save(model, tmp_path / "model.onnx")
    library = ts.compile(tmp_path / "model.onnx", config=ts.Config(measure=False))
    assert library.inputs[0].shape == ("batch_size", "length", 8)
    assert library.outputs[0].shape == ("batch_size", 2, "length", 4)
    for batch, length in ((1, 1), (3, 5)):
        x = np.random.default_rng(0).standard_normal((batch, length, 8)).astype(np.float32)
        np.testing.assert_array_equal(library(x), expected(model, x)[0])


def _constants(**values: list) -> list:
    return [
        node(
            "Constant", "", name, **{f"value_{'floats' if isinstance(v[0], float) else 'ints'}": v}
        )
        for name, v in values.items()
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        [*_constants(a=[7, -7], b=[-2, 2]), node("Div", "a b", "i")],
        [*_constants(a=[7, -7], b=[-2, 2]), node("Mod", "a b", "i")],
        [*_constants(a=[3, 5]), node("ReduceProd", "a", "i", keepdims=0)],
        [*_constants(a=[1, 2, 3], b=[2], c=[-9], d=[0], e=[-1]), node("Slice", "a b c d e", "i")],
        [*_constants(a=[0, 3]), node("NonZero", "a", "i")],
        [*_constants(a=[2, 3]), node("ConstantOfShape", "a", "i")],
        [*_constants(a=[1.5, 2.5]), node("Floor", "a", "f"), node("Cast", "f", "i", to=7)],
        [*_constants(a=[1, 2], b=[2, 1]), node("Greater", "a b", "c"), node("Where", "c a b", "i")],
        [*_constants(a=[1, 2], b=[3, 1]), node("Expand", "a s", "i")],
    ],
    ids=lambda nodes: nodes[-1].op_type,
)
def test_results_are_those_of_the_reference(nodes):
    cast = node("Cast", "i", "y", to=onnx.TensorProto.FLOAT)
    weights = {"s": np.array([2, 2])}
    model = graph([*nodes, cast], {}, ["y"], weights)
    np.testing.assert_array_equal(eager(model)[0], expected(model)[0])


def test_huge_constants_are_not_written_out():
    nodes = [
        *_constants(a=[1 << 40]),
        node("ConstantOfShape", "a", "huge"),
        node("Shape", "huge", "n"),
        node("Cast", "n", "y", to=onnx.TensorProto.FLOAT),
    ]
    with pytest.raises(SparseError, match="node 'huge': operator 'ConstantOfShape'"):
        eager(graph(nodes, {}, ["y"]))
