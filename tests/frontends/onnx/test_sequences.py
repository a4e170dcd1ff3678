"""Sequences are lists at import: what is taken from them is right, what leaves is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import TensorProto

import tvm_sparse as ts
from tests.frontends.onnx.graphs import eager, expected, graph, node
from tvm_sparse.errors import SparseError

X = np.arange(24, dtype=np.float32).reshape(2, 4, 3)
CONSTANTS = {f"i{n}": np.array(n) for n in (-2, -1, 0, 1, 2, 3)} | {
    "sizes": np.array([1, 3]),
    "i1v": np.array([1]),
}


def model(*nodes):
    return graph(nodes, {"x": X.shape}, ["y"], CONSTANTS)


JOIN = node("ConcatFromSequence", "s", "y", axis=1)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("SplitToSequence", "x", "s", axis=2), JOIN],
        [node("SplitToSequence", "x i3", "s", axis=1), node("SequenceAt", "s i-1", "y")],
        [node("SplitToSequence", "x sizes", "s", axis=1), node("SequenceAt", "s i1", "y")],
        [
            node("SplitToSequence", "x", "s", axis=-2, keepdims=0),
            node("ConcatFromSequence", "s", "y", axis=-1, new_axis=1),
        ],
        [
            node("SequenceConstruct", "x x", "r"),
            node("Neg", "x", "z"),
            node("SequenceInsert", "r z i-1", "t"),
            node("SequenceErase", "t i0", "s"),
            JOIN,
        ],
        [
            node("SequenceEmpty", "", "r", dtype=TensorProto.FLOAT),
            node("SequenceInsert", "r x", "s"),
            JOIN,
        ],
        [
            node("SplitToSequence", "x", "s", axis=1),
            node("SequenceLength", "s", "n"),
            node("Cast", "n", "f", to=TensorProto.FLOAT),
            node("Mul", "x f", "y"),
        ],
        [  # (2, 3) out of the shape (2, 4, 3)
            node("Shape", "x", "shape"),
            node("SplitToSequence", "shape", "parts"),
            node("SequenceErase", "parts i1", "s"),
            node("ConcatFromSequence", "s", "pair", axis=0),
            node("ReduceSum", "x i1v", "sums", keepdims=0),
            node("Reshape", "sums pair", "y"),
        ],
    ],
)
def test_operators(nodes):
    made = model(*nodes)
    np.testing.assert_array_equal(eager(made, X)[0], expected(made, X)[0])


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ([node("SplitToSequence", "x", "y")], "output 'y'.*is a sequence"),
        ([node("SequenceConstruct", "x", "s"), node("Neg", "s", "y")], "node 'y'.*is a sequence"),
        (
            [node("SequenceConstruct", "x x", "s"), node("SequenceAt", "s i2", "y")],
            "position 2 of a sequence of 2",
        ),
        (
            [node("SequenceConstruct", "x x", "s"), node("SequenceErase", "s i3", "y")],
            "position 3 of a sequence of 2",
        ),
        (
            [node("SequenceConstruct", "x", "s"), node("SequenceInsert", "s x i-2", "y")],
            "position -2 of a sequence of 1",
        ),
    ],
)
def test_what_is_no_tensor_is_refused(nodes, told):
    with pytest.raises(SparseError, match=told):
        eager(model(*nodes), X)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_torchscript_exporter_s_chunks(tmp_path):
    class Halves(torch.nn.Module):
        def forward(self, x):
            return torch.cat([part * (i + 1) for i, part in enumerate(x.chunk(2, 1))], 1)

    x = torch.from_numpy(X)
    path = tmp_path / "halves.onnx"
    torch.onnx.export(Halves(), (x,), path, dynamo=False, opset_version=17)
    library = ts.compile(str(path), config=ts.Config(measure=False))
    assert torch.equal(library(x), Halves()(x))
