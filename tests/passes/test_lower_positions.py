"""LowerPositions: the first extreme element of a row, a NaN before all others."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.lower.lower_positions import LowerPositions

EXTREMES = {"argmax": (relax.op.argmax, np.argmax), "argmin": (relax.op.argmin, np.argmin)}


def rows(shape) -> np.ndarray:
    """Small whole numbers: many are alike, and zeros have both signs. Some rows hold a NaN."""
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, shape).astype(np.float32) * rng.choice([-1, 1], shape)
    lines = x.reshape(-1, shape[-1])
    lines[::3, rng.integers(0, shape[-1])] = np.nan
    lines[1::3, -1] = np.inf
    lines[2::5] = -np.inf
    return x.astype(np.float32)


@pytest.mark.parametrize("name", EXTREMES)
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5, 16), -1), ((2, 3, 17), 2), ((7, 257), 1), ((6, 31), None), ((64,), 0)]
)
def test_positions_in_rows(name, shape, axis, keepdims):
    ours, theirs = EXTREMES[name]
    after = LowerPositions()(module(lambda x: ours(x, axis, keepdims), shape))
    assert operators(after).get(name, 0) == 0
    x = rows(shape)
    np.testing.assert_array_equal(evaluate(after, x), theirs(x, axis, keepdims=keepdims))


@pytest.mark.parametrize(("shape", "axis"), [((5, 15), -1), ((3, 64, 7), 1), ((64, 5), 0)])
def test_short_rows_and_other_axes_stay(shape, axis):
    after = LowerPositions()(module(lambda x: relax.op.argmax(x, axis), shape))
    assert operators(after) == {"argmax": 1}


class Places(nn.Module):
    def forward(self, x):
        shifted = x * 2 + 1
        return shifted.argmax(-1), shifted.argmin(-1, keepdim=True), shifted.argmax()


def test_open_rows_of_any_length():
    b, t = Dim("b"), Dim("t")
    library = ts.compile(Places(), (torch.zeros(3, 40),), dynamic_shapes=({0: b, 1: t},))
    for shape in [(1, 1), (2, 15), (3, 16), (4, 17), (5, 97), (1, 1000)]:
        x = torch.from_numpy(rows(shape))
        for found, wanted in zip(library(x), Places()(x), strict=True):
            assert torch.equal(found, wanted)
