"""Random networks with random zeros, compiled with measured and with forced choices."""

from __future__ import annotations

import copy

import pytest
import torch

import tvm_sparse as ts
from tests.random_networks import random_network

BOUND = 1e-5
QUICK, ALL = 4, 200


@pytest.mark.parametrize(
    "seed",
    [*range(QUICK), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, ALL))],
)
def test_compiled_random_network_agrees_with_pytorch(seed):
    model, x = random_network(seed)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    error = (library(x).double() - exact).abs().max()
    assert float(error) <= BOUND * max(1e-3, float(exact.abs().max()))
