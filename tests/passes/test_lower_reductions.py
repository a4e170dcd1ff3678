"""LowerReductions: rows are reduced in vectors, NaN as PyTorch has it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tvm import relax

import tvm_sparse as ts
from tests.passes.modules import evaluate, module, operators
from tvm_sparse.passes.lower_reductions import LowerReductions

REDUCTIONS = {"max": (relax.op.max, np.max), "min": (relax.op.min, np.min)}
REDUCTIONS["prod"] = (relax.op.prod, np.prod)


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 16), [-1]),
        ((3, 17), [1]),
        ((2, 3, 200), [2]),
        ((5, 7, 7), [1, 2]),
        ((2, 3, 7), None),
        ((1, 50000), [-1]),
        ((4, 1, 64), [-2, -1]),
    ],
)
@pytest.mark.parametrize("keepdims", [False, True])
def test_rows_are_reduced_in_vectors(name, shape, axes, keepdims):
    ours, theirs = REDUCTIONS[name]
    after = LowerReductions()(module(lambda x: ours(x, axes, keepdims=keepdims), shape))
    assert operators(after).get(name, 0) == 0
    x = np.random.default_rng(0).choice([-1.0, 1.0, 0.5, 2.0], shape).astype(np.float32)
    expected = theirs(x, axis=None if axes is None else tuple(axes), keepdims=keepdims)
    np.testing.assert_allclose(evaluate(after, x), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("shape", "axes"), [((16, 3), [0]), ((3, 15), [1]), ((4, 5, 16), [0, 2]), ((0, 16), [1])]
)
def test_other_axes_and_short_rows_stay(shape, axes):
    before = module(lambda x: relax.op.max(x, axes), shape)
    assert operators(LowerReductions()(before)) == {"max": 1}


@pytest.mark.parametrize("place", [0, 15, 16, 63, 64, 130])
@pytest.mark.parametrize("function", [torch.amax, torch.amin])
def test_nan_and_infinities_are_pytorchs(function, place):
    x = torch.randn(4, 131)
    x[0, place], x[1, place], x[2, place] = torch.nan, torch.inf, -torch.inf
    x[3] = -torch.inf

    class Reduced(torch.nn.Module):
        def forward(self, x):
            return function(x, -1)

    found = ts.compile(Reduced(), (x,), target="cpu")(x)
    torch.testing.assert_close(found, function(x, -1), equal_nan=True, rtol=0, atol=0)
