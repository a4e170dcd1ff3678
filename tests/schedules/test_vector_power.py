"""Powers in vectors: exact but for rounding, and C's values at every edge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tvm import te, tirx

import tvm_sparse as ts
from tests.kernels import run

EDGES = [0.0, 1.0, 2.0, 3.0, 0.5, 2.5, np.inf, np.nan, 1e-45, 1e-39, 3.4e38, 2.0**24, 2.0**24 + 2]
ULP = 0.53


def powers(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    shape = (len(x),)
    inputs = [te.placeholder(shape, "float32", name) for name in "XY"]
    power = te.compute(shape, lambda i: tirx.pow(inputs[0][i], inputs[1][i]), "power")
    return run(te.create_prim_func([*inputs, power]), [x, y], shape)


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.power(x.astype(np.float64), y.astype(np.float64))


def check(x: np.ndarray, y: np.ndarray) -> None:
    got, wanted = powers(x, y), exact(x, y)
    with np.errstate(over="ignore"):
        single = wanted.astype(np.float32)
    same = (got == single) | (np.isnan(got) & np.isnan(single))
    with np.errstate(invalid="ignore"):
        distance = np.abs(got - wanted)
        near = distance <= ULP * np.spacing(np.abs(single).clip(1.2e-38)).astype(np.float64)
    assert (same | near).all()
    number = ~np.isnan(got)
    assert (np.signbit(got) == np.signbit(single))[number].all()


def test_every_pair_of_edges():
    values = np.array([*EDGES, *(-v for v in EDGES)], np.float32)
    check(*(grid.ravel() for grid in np.meshgrid(values, values)))


@pytest.mark.parametrize("y", [0.75, -0.75, 2.5, -3.0, 5.0, 0.01, -20.0])
def test_rounding_whatever_the_base_is(y):
    x = np.random.default_rng(0).integers(0, 1 << 32, 40000, np.uint32).view(np.float32)
    check(x, np.full_like(x, y))


def test_rounding_whatever_the_exponent_is():
    random = np.random.default_rng(1)
    x = np.exp(random.normal(size=40000) * 3).astype(np.float32)
    check(x, (random.normal(size=40000) * 10).astype(np.float32))


@pytest.mark.grid
@pytest.mark.parametrize("exponent", [0.75, -0.75, -0.5, 4, -3])
def test_a_networks_power(exponent):
    class Power(torch.nn.Module):
        def forward(self, x):
            return torch.pow(x, exponent)

    x = torch.tensor([*EDGES, *(-v for v in EDGES)])
    got = ts.compile(Power(), (x,), config=ts.Config(measure=False))(x)
    wanted = torch.pow(x, exponent)
    torch.testing.assert_close(got, wanted, rtol=5e-7, atol=1e-44, equal_nan=True)
    number = ~torch.isnan(wanted)
    assert torch.equal(torch.signbit(got)[number], torch.signbit(wanted)[number])


class Chain(torch.nn.Module):
    """Powers of powers and of exponentials, which fuse into one function."""

    def forward(self, x):
        return (torch.exp(-(x**1.7)) ** 0.3) ** 1.9


@pytest.mark.timeout(60)
def test_chains_of_powers_compile():
    x = torch.linspace(0.1, 2, 37)
    found = ts.compile(Chain(), (x,), target="cpu")(x)
    torch.testing.assert_close(found, Chain()(x))
