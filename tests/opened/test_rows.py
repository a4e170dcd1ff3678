"""Rows of two open axes: the register tile lies along the one that is long enough."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.opened import poisoned
from tests.opened.case import TILE, OpenCase
from tests.opened.judged import compiled
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.schedules.cpu import contraction

MOST = 37
EXTENTS = [(1, 1), (1, MOST), (2, TILE), (TILE, 1), (MOST, 3), (3, 3), (TILE + 1, 2), (MOST, MOST)]


class Block(nn.Module):
    """Two layers with what fuses into them: a bias, an activation, a sum."""

    def __init__(self, keep: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 48), nn.Linear(48, 32)
        for layer in (self.first, self.second):
            values = torch.randint(-3, 4, layer.weight.shape).float()
            mask = Balanced(16, keep).project(np.random.default_rng(0).random(values.shape))
            layer.weight.data = values * torch.from_numpy(mask)
            layer.bias.data = torch.randint(-3, 4, layer.bias.shape).float()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return (rows, columns, 32)."""
        return x + self.second(self.first(x).relu())


@pytest.mark.grid
@pytest.mark.parametrize("keep", [16, 4])
def test_either_axis_may_be_short(keep, monkeypatch):
    torch.manual_seed(0)
    axes, versions = [], contraction.versions

    def seen(func, cases, few):
        axes.append(len(cases))
        return versions(func, cases, few)

    monkeypatch.setattr(contraction, "versions", seen)
    model = Block(keep).eval().requires_grad_(False)
    limits = {"rows": (1, MOST), "columns": (1, MOST)}
    example = {"rows": 5, "columns": 21}
    case = OpenCase(model, [["rows", "columns", 32]], limits, example, exact=True)
    library = compiled(case)
    assert 2 in axes  # of the last layer; the rows of others are numbered over both axes
    for seed, (rows, columns) in enumerate(EXTENTS):
        (x,) = case.inputs({"rows": rows, "columns": columns}, seed)
        assert torch.equal(library(x), model(x)), (rows, columns)
        (again,) = poisoned.run(library, (x,))
        assert np.array_equal(again, model(x).numpy()), (rows, columns)
