"""Models that keep tables for the next call of the same length."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tvm_sparse.frontends.modules.kept_state import kept_state


class Rotary(nn.Module):
    """Turns rows by a table of their positions, which it keeps as Conformers do."""

    def __init__(self):
        super().__init__()
        self.length, self.table, self.other = None, None, {}
        self.steps = nn.Parameter(torch.rand(8))
        self.rows = nn.Linear(16, 16)
        self.cut = True

    def positions(self, x):
        length = x.shape[1]
        if length == self.length and self.table is not None:
            return self.table
        self.length = length
        angles = torch.arange(length).type_as(self.steps)[:, None] * self.steps
        self.table = torch.cat([angles, angles], -1).cos()
        self.other["last"] = self.table
        return self.table

    def forward(self, x):
        table = self.positions(x)
        return self.rows(x * (table[: x.shape[1]] if self.cut else table))


class Framed(nn.Module):
    """Rows are frames of a wave: their number is a quotient of its length."""

    def __init__(self):
        super().__init__()
        self.frames, self.rotary = nn.Conv1d(1, 16, 10, 5), Rotary()

    def forward(self, x):
        return self.rotary(self.frames(x[:, None]).mT)


@pytest.mark.parametrize("called", [False, True])
@pytest.mark.parametrize("framed", [False, True])
def test_a_table_of_another_length_is_not_read(framed, called):
    model = (Framed() if framed else Rotary()).eval()

    def rows(length):
        return torch.randn(2, 5 * length + 5) if framed else torch.randn(2, length, 16)

    if called:
        model(rows(9))
    dim = Dim("n", min=20, max=200) if framed else Dim("n", min=2, max=40)
    library = ts.compile(model, (rows(9),), dynamic_shapes=({1: dim},))
    for length in (4, 9, 10, 30):
        x = rows(length)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_nor_where_lengths_are_multiples():
    model = Framed().eval()
    model.rotary.cut = False
    model(torch.randn(2, 50))
    shapes = ({1: 10 * Dim("n", min=2, max=20)},)
    library = ts.compile(model, (torch.randn(2, 50),), dynamic_shapes=shapes)
    for length in (20, 50, 60, 200):
        x = torch.randn(2, length)
        torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_attributes_are_what_they_were():
    model = Rotary()
    model.other["first"] = 1
    with kept_state(model):
        model(torch.randn(1, 3, 16))
        model.added = 1
    assert model.length is None and model.table is None and not hasattr(model, "added")
    assert model.other == {"first": 1}
