"""Weights of 4 bits, against ONNX's reference implementation."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_sparse as ts
from tests.frontends.onnx.graphs import expected, graph, node

CONFIG = ts.Config(measure=False, tuned=False)
RNG = np.random.default_rng(0)
LIMITS = {"INT4": (-8, 8), "UINT4": (0, 16)}


def _narrow(name, kind, array):
    kind = getattr(TensorProto, kind)
    return helper.make_tensor(name, kind, array.shape, array.reshape(-1).tolist())


@pytest.mark.grid
@pytest.mark.parametrize("kind", LIMITS)
@pytest.mark.parametrize(
    ("axis", "block", "count"), [(0, 4, (8, 24)), (1, 0, (24,)), (None, 0, ())]
)
@pytest.mark.parametrize("zero", [False, True])
def test_their_meaning_is_read(kind, axis, block, count, zero, tmp_path):
    low, high = LIMITS[kind]
    numbers = RNG.integers(low, high, (32, 24))
    numbers[RNG.random(numbers.shape) < 0.75] = low + 8
    attributes = {} if axis is None else {"axis": axis}
    attributes |= {"block_size": block} if block else {}
    nodes = [
        node("DequantizeLinear", f"w s{' z' if zero else ''}", "d", **attributes),
        node("MatMul", "x d", "y"),
    ]
    scales = {"s": np.asarray(RNG.uniform(0.01, 0.1, count), np.float32)}
    made = graph(nodes, {"x": (4, 32)}, ["y"], scales)
    made.graph.initializer.append(_narrow("w", kind, numbers))
    if zero:
        made.graph.initializer.append(_narrow("z", kind, np.full(count, low + 8)))
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    library = ts.compile(path, config=CONFIG)
    (decision,) = library.decisions
    assert decision.layer == "w"
    assert decision.reason.startswith(
        "weights of 4 bits, unpacked when compiled: right, but no fas"
    )
    x = RNG.standard_normal((4, 32), np.float32)
    np.testing.assert_allclose(library(x), expected(made, x)[0], rtol=1e-4, atol=1e-5)


def test_other_readers_are_refused(tmp_path):
    made = graph([node("Cast", "w", "c", to=1), node("Add", "x c", "y")], {"x": (4, 4)}, ["y"])
    made.graph.initializer.append(_narrow("w", "INT4", np.zeros((4, 4), int)))
    onnx.save(made, tmp_path / "model.onnx")
    with pytest.raises(ts.UnsupportedError, match="weight 'w': has elements of type INT4"):
        ts.load(tmp_path / "model.onnx")
