"""Random networks with random zeros, compiled with measured and with forced choices."""

from __future__ import annotations

import copy

import pytest
import torch

import tvm_sparse as ts
from tests.random_glue import random_glue
from tests.random_networks import random_network

BOUND = 1e-5
QUICK, ALL = 4, 200


SEEDS = [
    *range(QUICK),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, ALL)),
]


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_random_network_agrees_with_pytorch(seed):
    model, x = random_network(seed)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    error = (library(x).double() - exact).abs().max()
    assert float(error) <= BOUND * max(1e-3, float(exact.abs().max()))


@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_random_glue_agrees_with_pytorch(seed):
    """As near to the exact values as PyTorch, NaN where they are."""
    model, x = random_glue(seed)
    with torch.no_grad():
        eager, exact = model(x).double(), copy.deepcopy(model).double()(x.double())
    found = ts.compile(model, (x,), config=ts.Config(measure=False))(x).double()
    assert torch.equal(found.isnan(), eager.isnan())
    number = ~(exact.isnan() | eager.isnan())
    scale = float(exact[number].abs().max()) if number.any() else 0.0
    own = float((eager - exact)[number].abs().max()) if number.any() else 0.0
    wrong = (found - exact)[number].abs()
    assert not number.any() or float(wrong.max()) <= BOUND * max(1e-3, scale) + 4 * own
