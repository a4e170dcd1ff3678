"""Integers of a graph that depend on open extents stay open."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node
from tvm_sparse_runtime import TensorError


@pytest.mark.grid
@pytest.mark.parametrize("bounds", [{}, {"tokens": 512}, {"tokens": (2, 512)}])
def test_positions_up_to_an_open_length(bounds, tmp_path):
    """As encoders have them: a table of all positions, cut to the tokens that there are.

    Without a bound the table is one. An input whose extents nothing compares has those of its name.
    """
    nodes = [
        node("Shape", "x", "length", start=1, end=2),
        node("Slice", "positions zero length axis", "places"),
        node("Gather", "table places", "embedded"),
        node("ReduceSum", "mask", "count", keepdims=0),
        node("Mul", "embedded count", "scaled"),
        node("Add", "x scaled", "y"),
    ]
    table = np.random.default_rng(0).random((512, 8)).astype(np.float32)
    constants = {
        **{"positions": np.arange(512)[None], "zero": np.array([0]), "axis": np.array([1])},
        "table": table,
    }
    path = tmp_path / "net.onnx"
    inputs = {"x": ["batch", "tokens", 8], "mask": ["batch", "tokens"]}
    onnx.save(graph(nodes, inputs, ["y"], constants), path)
    library = ts.compile(ts.load(path, bounds=bounds), config=ts.Config(measure=False))
    assert [spec.shape for spec in library.inputs] == [("batch", "tokens", 8), ("batch", "tokens")]
    for tokens in (*([] if "tokens" in bounds else [1]), 2, 7, 512):
        x, mask = np.ones((3, tokens, 8), np.float32), np.zeros((3, tokens), np.float32)
        mask[0, 0] = 2
        np.testing.assert_allclose(np.asarray(library.run(x, mask)[0]), x + 2 * table[:tokens])
    with pytest.raises(TensorError, match=r"tokens = .* to 512"):
        library.run(np.ones((3, 513, 8), np.float32), np.ones((3, 513), np.float32))


def test_the_largest_of_an_open_axis(tmp_path):
    """As many as half of the tokens, or all where these are few: a product of extents."""
    nodes = [
        node("Shape", "x", "length", start=1, end=2),
        node("ReduceProd", "length", "tokens", keepdims=0),
        node("Div", "tokens two", "half"),
        node("Add", "half one", "more"),
        node("Reshape", "more row", "count"),
        node("TopK", "x count", "values places", axis=1),
        node("TopK", "x least", "top below", axis=1, largest=0),
        node("Min", "length five", "least"),
    ]
    nodes.insert(6, nodes.pop())
    constants = {"two": np.array(2), "one": np.array(1), "row": [1], "five": [5]}
    constants = {name: np.array(value, np.int64) for name, value in constants.items()}
    path = tmp_path / "net.onnx"
    outputs = ["values", "places", "top", "below"]
    onnx.save(graph(nodes, {"x": ["batch", "tokens"]}, outputs, constants), path)
    library = ts.compile(path, config=ts.Config(measure=False))
    for tokens in (1, 2, 4, 5, 7, 40):
        x = np.random.default_rng(tokens).permutation(3 * tokens).reshape(3, tokens)
        found = [np.asarray(y) for y in library(x.astype(np.float32))]
        for order, count, rows in (
            (-x, tokens // 2 + 1, found[:2]),
            (x, min(tokens, 5), found[2:]),
        ):
            places = np.argsort(order, 1)[:, :count]
            np.testing.assert_array_equal(rows[0], np.take_along_axis(x, places, 1))
            np.testing.assert_array_equal(rows[1], places)
