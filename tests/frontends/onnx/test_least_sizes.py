"""Ranges of open extents begin where the traced program is the network for the first time."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim, export

from tests.modules import Apply
from tvm_sparse.frontends.onnx.inputs import Input
from tvm_sparse.frontends.onnx.least_sizes import lowered

SIZES = {"h": 9, "w": 12}

CASES = {
    "the same from one on": (lambda x: x[:, ::2].flatten(1) * 2, (1, 1)),
    "no window of one row": (lambda x: F.avg_pool2d(x[:, None], (2, 1)), (2, 1)),
    "other columns up to three": (lambda x: x * 2 if x.shape[2] > 3 else x, (1, 4)),
    "single rows are left out": (lambda x: x.squeeze(1) + 1, (2, 1)),
    "another program where both are one": (
        lambda x: x if x.shape[1] * x.shape[2] == 1 else x + 1,
        (5, 4),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_least_size_is_found(name):
    function, least = CASES[name]
    network = Apply(function)
    x = torch.rand(2, SIZES["h"], SIZES["w"])
    program = export(network, (x,), dynamic_shapes=({1: Dim.AUTO, 2: Dim.AUTO},))
    (node,) = program.graph.find_nodes(op="placeholder")
    symbols = dict(zip("hw", (n.node.expr for n in node.meta["val"].shape[1:]), strict=True))
    ranges = {symbols["h"]: (5, None), symbols["w"]: (4, 30)}
    wanted = dict.fromkeys(ranges, (1, None))
    inputs = [Input("x", torch.float32, (2, "h", "w"))]
    found = lowered(network, inputs, program, (symbols, SIZES), (ranges, wanted))
    assert found == {symbols["h"]: (least[0], None), symbols["w"]: (least[1], 30)}


def test_the_least_size_is_found_where_strides_leave_one_row():
    network = Apply(lambda x: F.interpolate(F.avg_pool2d(x[:, None], (32, 1)), x.shape[1:]))
    x = torch.rand(2, 70, 4)
    program = export(network, (x,), dynamic_shapes=({1: Dim.AUTO},))
    (node,) = program.graph.find_nodes(op="placeholder")
    symbol = node.meta["val"].shape[1].node.expr
    limits = {symbol: (64, None)}, {symbol: (1, None)}
    inputs = [Input("x", torch.float32, (2, "h", 4))]
    found = lowered(network, inputs, program, ({"h": symbol}, {"h": 70}), limits)
    assert found == {symbol: (32, None)}
