"""Tables of bytes that are looked up first and become floats then, as quantizers write them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tvm_sparse as ts
from tests.frontends.onnx.graphs import graph, node

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SCALE = np.float32(0.02)


@pytest.mark.grid
@pytest.mark.parametrize("tokens", [8, "tokens"])
@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int16])
def test_rows_are_looked_up(kind, tokens, tmp_path):
    limits, rng = np.iinfo(kind), np.random.default_rng(0)
    table = rng.integers(limits.min, limits.max + 1, (50, 32)).astype(kind)
    nodes = [node("Gather", "table places", "bytes"), node("DequantizeLinear", "bytes s z", "y")]
    weights = {"table": table, "s": SCALE, "z": np.array(3, kind)}
    model = graph(nodes, {"places": [1, tokens]}, ["y"], weights)
    model.graph.input[0].type.tensor_type.elem_type = onnx.TensorProto.INT64
    onnx.save(model, tmp_path / "model.onnx")
    library = ts.compile(tmp_path / "model.onnx", config=CONFIG)
    for count in (8,) if tokens == 8 else (1, 8, 17):
        places = rng.integers(0, 50, (1, count))
        expected = (table[places].astype(np.float32) - 3) * SCALE
        np.testing.assert_array_equal(np.from_dlpack(library.run(places)[0]), expected)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_rows_of_a_buffer_are_looked_up(dtype):
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("table", torch.randint(0, 127, (50, 32)).to(dtype))

        def forward(self, places):
            return F.embedding(places, self.table).float() * float(SCALE)

    model, places = Table(), torch.randint(0, 50, (1, 8))
    library = ts.compile(model, (places,), config=CONFIG)
    torch.testing.assert_close(library(places), model(places), rtol=0, atol=0)
