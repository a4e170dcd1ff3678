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
