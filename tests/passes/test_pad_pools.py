"""PadPools: max pooling has the borders that the network puts around what it reads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.canonical.pad_pools import PadPools

INFINITY = float("inf")
SHAPES = {1: (2, 6, 9), 2: (2, 6, 9, 7), 3: (1, 6, 5, 4, 6)}
POOLS = {n: getattr(relax.op.nn, f"max_pool{n}d") for n in (1, 2, 3)}
WIDTHS = {"behind": [0, 1], "before": [2, 0], "both": [1, 3]}


def both(rank, widths, value=-INFINITY, mode="constant", **options):
    """Return operators before and after the pass, whose results are equal."""

    def body(x):
        builder = relax.BlockBuilder.current()
        padded = builder.emit(relax.op.nn.pad(x, widths, mode, value))
        return builder.emit(POOLS[rank](padded, [4] * rank, **options))  # all have elements

    before = module(body, SHAPES[rank])
    after = PadPools()(before)
    x = np.random.default_rng(0).integers(-9, 9, SHAPES[rank]).astype("float32")
    np.testing.assert_array_equal(evaluate(after, x), evaluate(before, x))
    return operators(before), operators(after)


@pytest.mark.parametrize("rank", SHAPES)
@pytest.mark.parametrize("where", WIDTHS)
def test_pads_become_borders(rank, where):
    widths = [0] * 4 + WIDTHS[where] * rank
    found, after = both(rank, widths, strides=[2] * rank, padding=[1, 0] * rank)
    assert "nn.pad" in found and "nn.pad" not in after


@pytest.mark.parametrize(
    "options",
    [
        {"value": 0.0},
        {"mode": "reflect"},
        {"widths": [0, 0, 1, 1, 0, 0, 0, 0]},
        {"ceil_mode": True, "strides": [2, 2]},
    ],
)
def test_other_pads_stay(options):
    found, after = both(2, **{"widths": [0] * 4 + [0, 1, 0, 1], **options})
    assert found == after


class Stem(nn.Module):
    """Layers of a text detector: one result is pooled in steps of one, and read twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 2, 1)
        self.second, self.last = nn.Conv2d(16, 16, 1), nn.Conv2d(32, 16, 3, padding=1)

    def forward(self, x):
        y = self.first(x).relu()
        around = nn.functional.pad(y, (0, 1, 0, 1), value=-INFINITY)
        pooled = nn.functional.max_pool2d(around, 2, 1)
        return self.last(torch.cat([pooled, self.second(y)], 1))


@pytest.mark.parametrize("opened", [False, True])
def test_a_network_of_open_and_closed_planes(opened):
    torch.manual_seed(0)
    model, x = Stem().eval(), torch.randn(2, 3, 64, 64)
    axes = {n: 32 * torch.export.Dim(name, max=9) for n, name in ((2, "h"), (3, "w"))}
    shapes = ({0: torch.export.Dim("n", max=9), **axes},) if opened else None
    config = ts.Config(measure=False, cache=False)
    library = ts.compile(model, (x,), dynamic_shapes=shapes, config=config)
    for shape in [(2, 3, 64, 64), (5, 3, 96, 64)][: 1 + opened]:
        x = torch.randn(shape)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)
