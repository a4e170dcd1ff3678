"""Powers, shifts, divisors and polynomials whose operands are spread over open extents."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

SPREAD = {
    "power": lambda x: x ** x.sum(0).remainder(4),
    "shifts": lambda x: (x << (x[0] & 3), x >> (x[0] & 3)),
    "divisors": lambda x: torch.gcd(x, x[0]),
    "polynomials": lambda x: torch.special.chebyshev_polynomial_t(x / 9, x[0] & 3),
    "zeta": lambda x: torch.special.zeta(x + 2.0, x[0] + 1.0),
}


class Function(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


@pytest.mark.grid
@pytest.mark.parametrize("name", SPREAD)
def test_operands_are_spread_over_open_extents(name):
    model = Function(SPREAD[name])
    example = torch.arange(15).reshape(5, 3) % 9
    source = ts.load(model, (example,), dynamic_shapes=({0: Dim("n", min=1)},))
    library = ts.compile(source, config=CONFIG)
    for rows in (1, 2, 7):
        x = torch.arange(rows * 3).reshape(rows, 3) % 7
        torch.testing.assert_close(library(x), model(x))
