"""Quotients of whole numbers at the edges, where a processor would end the process."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
DTYPES = ["uint8", "int8", "int16", "int32", "int64"]


class Quotients(nn.Module):
    def forward(self, x, y):
        cut = torch.div(x, y, rounding_mode="trunc")
        return x // y, x % y, cut, torch.fmod(x, y)


def quotients(x: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    library = ts.compile(Quotients(), (torch.from_numpy(x), torch.from_numpy(y)), config=CONFIG)
    return list(library(x, y))


@pytest.mark.grid
@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_are_pytorch_s(dtype):
    bounds = np.iinfo(dtype)
    numbers = np.array([bounds.min, bounds.max, *np.arange(0 if bounds.min == 0 else -9, 9)], dtype)
    x, y = (a.ravel() for a in np.meshgrid(numbers, numbers))
    inside = (y != 0) & ~((x == bounds.min) & (y == np.array(-1).astype(dtype)))
    x, y = x[inside], y[inside]
    expected = Quotients()(torch.from_numpy(x), torch.from_numpy(y))
    for found, wanted in zip(quotients(x, y), expected, strict=True):
        np.testing.assert_array_equal(found, wanted.numpy())


@pytest.mark.grid
@pytest.mark.parametrize("dtype", DTYPES)
def test_quotients_by_zero_are_zero(dtype):
    x = np.array([np.iinfo(dtype).min, 0, 7], dtype)
    for found in quotients(x, np.zeros(3, dtype)):
        np.testing.assert_array_equal(found, 0)


class Vanishing(nn.Module):
    """Quotients by what is always zero, which a compiler may find out."""

    def forward(self, x):
        return *Quotients()(x, x - x), *Quotients()(x, x * 0)


@pytest.mark.grid
@pytest.mark.parametrize("target", ["cpu", "cuda:sm_90"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_divisors_that_vanish_compile(dtype, target):
    x = np.array([np.iinfo(dtype).min, 0, 7], dtype)
    library = ts.compile(Vanishing(), (torch.from_numpy(x),), target=target, config=CONFIG)
    if target == "cpu":
        for found in library(x):
            np.testing.assert_array_equal(found, 0)


@pytest.mark.grid
@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_the_least_number_by_minus_one_is_itself(dtype):
    least = np.full(3, np.iinfo(dtype).min, dtype)
    divided, remainder, cut, rest = quotients(least, np.full(3, -1, dtype))
    assert (divided == least).all()
    assert (cut == least).all()
    assert not remainder.any()
    assert not rest.any()


DIVISORS = {
    "number": lambda y: 3,
    "negative": lambda y: -3,
    "minus one": lambda y: -1,
    "tensor": lambda y: torch.arange(y.shape[-1], dtype=y.dtype) - 3,
    "filled": lambda y: torch.full_like(y, 5),
}


class Behind(nn.Module):
    """All quotients, each behind a layer that is not."""

    def __init__(self, dtype, divisor, features):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, features) for _ in range(4))
        self.dtype, self.divisor = dtype, divisor

    def forward(self, x):
        whole = [layer(x).abs().to(self.dtype) for layer in self.layers]
        y = self.divisor(whole[0])
        y = torch.where(y == 0, 7, y) if isinstance(y, torch.Tensor) else y
        a, b, c, d = whole
        return (
            (a // y).float(),
            (b % y).float(),
            torch.div(c, y, rounding_mode="trunc").float(),
            torch.fmod(d, y).float(),
        )


@pytest.mark.grid(12)
@pytest.mark.parametrize(("rows", "features"), [(4, 16), (1, 8), (3, 5)])
@pytest.mark.parametrize(
    ("dtype", "divisor"),
    [(torch.uint8, "filled"), *itertools.product([torch.int32, torch.int64], DIVISORS)],
)
def test_quotients_behind_a_layer(dtype, divisor, rows, features):
    torch.manual_seed(0)
    network = Behind(dtype, DIVISORS[divisor], features).requires_grad_(False)
    x = torch.randn(rows, 8) * 20
    found = ts.compile(network, (x,), config=CONFIG)(x)
    for one, wanted in zip(found, network(x), strict=True):
        torch.testing.assert_close(one, wanted, rtol=0, atol=0)


class Signs(nn.Module):
    def forward(self, x):
        return torch.sign(x), -x


@pytest.mark.parametrize("dtype", DTYPES)
def test_signs(dtype):
    bounds = np.iinfo(dtype)
    numbers = [bounds.min, bounds.min + 1, 0, 1, 2, bounds.max, *([-1, -7] if bounds.min else [])]
    x = torch.from_numpy(np.array(numbers, dtype))
    found = ts.compile(Signs(), (x,), config=CONFIG)(x)
    for a, b in zip(found, Signs()(x), strict=True):
        torch.testing.assert_close(a, b)
