"""Weights whose elements are moved before a node reads them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontends.onnx.graphs import graph, node
from tvm_sparse.onnx_files.document import Document
from tvm_sparse.onnx_files.layers import find_layers

WEIGHT = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
MORE = {
    "start": np.array([0]),
    "middle": np.array([2]),
    "end": np.array([6]),
    "shape": np.array([4, 6]),
    "axis": np.array([0]),
}


def found(nodes, **weights):
    nodes = [*nodes, node("MatMul", "x t", "y")]
    made = graph(nodes, {"x": (3, "k")}, ["y"], {"w": WEIGHT, **MORE, **weights})
    document = Document(made)
    return document, find_layers(document)


CUT = [node("Slice", "w start middle axis", "a"), node("Slice", "w middle end axis", "b")]


@pytest.mark.parametrize(
    ("nodes", "read"),
    [
        ([node("Reshape", "w shape", "t")], WEIGHT.reshape(4, 6)),
        ([*CUT, node("Concat", "b a", "t", axis=0)], np.concatenate([WEIGHT[2:], WEIGHT[:2]])),
        ([node("Unsqueeze", "w axis", "u"), node("Squeeze", "u axis", "t")], WEIGHT),
        ([*CUT, node("Concat", "a b", "c", axis=0), node("Transpose", "c", "t")], WEIGHT.T),
    ],
)
def test_what_is_only_moved_is_followed(nodes, read):
    document, layers = found(nodes)
    (layer,) = layers.layers
    assert layer.name == "w"
    stored = np.array(document.array(layer.stored.tensor))
    assert np.array_equal(layer.layout.weight(stored), read.T)
    layer.layout.write(2 * read.T, stored)
    assert np.array_equal(stored, 2 * WEIGHT)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Slice", "w start middle axis", "t")],
        [*CUT, node("Concat", "a a b", "t", axis=0)],
        [node("Concat", "w v", "t", axis=0)],
        [node("Mul", "w w", "t")],
        [node("Reshape", "w shape", "r"), node("Relu", "r", "t")],
    ],
)
def test_what_is_missing_doubled_joined_or_computed_is_left(nodes):
    _, layers = found(nodes, v=WEIGHT)
    assert not layers.layers
    assert "is computed" in next(iter(layers.left.values()))


def test_a_part_that_something_else_reads_keeps_the_weight():
    _, layers = found([*CUT, node("Concat", "b a", "t", axis=0), node("Relu", "a", "z")])
    assert not layers.layers
    assert layers.left["w"] == "its weight is read by z (Relu), too"
