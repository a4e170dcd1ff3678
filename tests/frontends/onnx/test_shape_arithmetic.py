"""Integers of a graph that depend on open extents stay open."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node


@pytest.mark.parametrize("bounds", [{"tokens": 512}, {"tokens": (2, 512)}])
def test_positions_up_to_an_open_length(bounds, tmp_path):
    """As encoders have them: a table of all positions, cut to the tokens that there are."""
    nodes = [
        node("Shape", "x", "length", start=1, end=2),
        node("Slice", "positions zero length axis", "places"),
        node("Gather", "table places", "embedded"),
        node("Add", "x embedded", "y"),
    ]
    table = np.random.default_rng(0).random((512, 8)).astype(np.float32)
    constants = {
        **{"positions": np.arange(512)[None], "zero": np.array([0]), "axis": np.array([1])},
        "table": table,
    }
    path = tmp_path / "net.onnx"
    onnx.save(graph(nodes, {"x": ["batch", "tokens", 8]}, ["y"], constants), path)
    library = ts.compile(ts.load(path, bounds=bounds), config=ts.Config(measure=False))
    for tokens in (2, 7, 512):
        x = np.ones((3, tokens, 8), np.float32)
        np.testing.assert_allclose(np.asarray(library.run(x)[0]), x + table[:tokens])
