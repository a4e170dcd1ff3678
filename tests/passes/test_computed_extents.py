"""Rows whose number is computed from open extents have operators of ours, with what follows."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.export import Dim
from tvm import tirx

import tvm_sparse as ts
from tvm_sparse.passes.graph.computed_extents import in_own_symbols
from tvm_sparse.passes.graph.rewrite import same_extent
from tvm_sparse.selection.decisions import DENSE


class Joined(nn.Module):
    """Tokens of two texts, side by side: ``p + q`` rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, a, b):
        x = torch.cat((a, b), 1)
        return x + self.second(torch.relu(self.first(x)))


class Flattened(nn.Module):
    """Tokens of all texts under one another: ``batch * tokens`` rows."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 48)

    def forward(self, x):
        return torch.relu(self.first(x.reshape(-1, 32))).reshape(x.shape[0], -1, 48)


class Frames(nn.Module):
    """Frames of videos as images of one batch: ``3 * batch`` images."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(16, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 32, 3, groups=32)

    def forward(self, x):
        return self.second(torch.relu(self.first(x.flatten(0, 1)))).mean((2, 3))


P, Q = Dim("p", min=2, max=64), Dim("q", min=2, max=64)
CASES = {
    "two joined": (
        Joined,
        ((1, 5, 32), (1, 7, 32)),
        ({1: P}, {1: Q}),
        [((1, 9, 32), (1, 3, 32)), ((1, 20, 32), (1, 21, 32))],
    ),
    "one joined": (
        Joined,
        ((2, 5, 32), (2, 7, 32)),
        ({1: P}, None),
        [((2, 9, 32), (2, 7, 32)), ((2, 33, 32), (2, 7, 32))],
    ),
    "flattened": (Flattened, ((3, 5, 32),), ({0: P, 1: Q},), [((4, 9, 32),), ((7, 2, 32),)]),
    "frames": (Frames, ((2, 3, 16, 6, 6),), ({0: P},), [((5, 3, 16, 6, 6),)]),
}


@pytest.mark.grid
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("sparsity", [0.0, 0.875])
def test_any_extents(case, sparsity):
    torch.manual_seed(0)
    make, shapes, dynamic, others = CASES[case]
    model = make().eval()
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    inputs = tuple(map(torch.randn, shapes))
    config = ts.Config(measure=False)
    library = ts.compile(model, inputs, dynamic_shapes=dynamic, config=config)
    assert all(kernel.ours for kernel in library.kernels if kernel.contraction)
    if sparsity:
        assert all(row.chosen not in DENSE for row in library.decisions if row.sparsity)
    for other in others:
        given = tuple(map(torch.randn, other))
        with torch.no_grad():
            torch.testing.assert_close(library(*given), model(*given), rtol=1e-4, atol=1e-5)


def test_shapes_in_own_symbols():
    n, m, other = (tirx.Var(name, "int64") for name in ("n", "m", "n0"))
    first, fixed, second, again, twice, apart = in_own_symbols((n, 4, m, n, n * 2, other * 3))
    assert first.same_as(again)
    assert fixed == 4
    assert not any(a.same_as(b) for a, b in ((first, second), (first, n), (second, m)))
    assert same_extent(twice, first * 2)
    assert same_extent(apart, other * 3)
    assert len({first.name, second.name, other.name}) == 3
    assert in_own_symbols((7,)) == (7,)
    assert str(in_own_symbols((n, n))) != str(in_own_symbols((n, m)))
