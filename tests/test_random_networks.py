"""Random networks with random zeros, compiled with measured and with forced choices."""

from __future__ import annotations

import copy

import pytest
import torch

import tvm_sparse as ts
from tests.random_glue import random_glue
from tests.random_networks import random_network
from tests.random_sequences import random_sequences

BOUND = 1e-5
QUICK, ALL = 4, 200


SEEDS = [
    *range(QUICK),
    *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(QUICK, ALL)),
]


@pytest.mark.grid
@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_random_network_agrees_with_pytorch(seed):
    model, x = random_network(seed)
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(x.double())
    library = ts.compile(model, (x,), config=ts.Config(measure=False))
    error = (library(x).double() - exact).abs().max()
    assert float(error) <= BOUND * max(1e-3, float(exact.abs().max()))


@pytest.mark.grid
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("network", [random_glue, random_sequences])
def test_compiled_random_glue_agrees_with_pytorch(network, seed):
    """As near to the exact values as PyTorch, NaN where they are."""
    model, x = network(seed)
    with torch.no_grad():
        eager, exact = model(x).double(), copy.deepcopy(model).double()(x.double())
    found = ts.compile(model, (x,), config=ts.Config(measure=False))(x).double()
    assert torch.equal(found.isnan(), eager.isnan())
    number = ~(exact.isnan() | eager.isnan())
    scale = float(exact[number].abs().max()) if number.any() else 0.0
    own = float((eager - exact)[number].abs().max()) if number.any() else 0.0
    wrong = (found - exact)[number].abs()
    assert not number.any() or float(wrong.max()) <= BOUND * max(1e-3, scale) + 4 * own


@pytest.mark.grid
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("network", [random_network, random_sequences])
def test_a_random_network_takes_a_batch_of_any_size(network, seed):
    model, x = network(seed)
    x = torch.cat([x, x + 0.1])
    try:
        library = ts.compile(
            ts.load(model, (x,), dynamic_batch=True), config=ts.Config(measure=False)
        )
    except ts.InputError as error:
        pytest.skip(str(error))
    for batch in (1, 3, 7):
        part = torch.cat([x] * 4)[:batch]
        with torch.no_grad():
            eager, exact = model(part).double(), copy.deepcopy(model).double()(part.double())
        own, scale = float((eager - exact).abs().max()), float(exact.abs().max())
        wrong = float((library(part).double() - exact).abs().max())
        assert wrong <= BOUND * max(1e-3, scale) + 4 * own
