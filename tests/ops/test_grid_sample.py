"""Samples at the places of a grid: every mode, padding and corner, in planes and volumes."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts

CONFIG = ts.Config(sparse=False, measure=False, cache=False, tuned=False)
PADDINGS = ("zeros", "border", "reflection")
WAYS = [(mode, padding) for mode in ("bilinear", "nearest", "bicubic") for padding in PADDINGS]
OF_VOLUMES = [way for way in WAYS if way[0] != "bicubic"]
SPECIAL = (math.nan, math.inf, -math.inf, 1e30)


class Samples(nn.Module):
    """One way to sample, with both meanings of the corners."""

    def __init__(self, mode, padding):
        super().__init__()
        self.way = mode, padding

    def forward(self, x, grid):
        return {str(both): F.grid_sample(x, grid, *self.way, both) for both in (False, True)}


def check(way, x, grid, tolerance, extents=None):
    program = Samples(*way)
    library = ts.compile(program, (x, grid), dynamic_shapes=extents, config=CONFIG)
    found, expected = library(x, grid), program(x, grid)
    wrong = [
        name
        for name, value in expected.items()
        if not torch.allclose(found[name], value, rtol=tolerance, atol=tolerance, equal_nan=True)
    ]
    assert wrong == []


def far(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return places inside, at edges, halves of elements, outside and far outside."""
    grid = torch.randn(*shape, dtype=dtype) * torch.tensor([0.5, 1.5, 30])[torch.randint(3, shape)]
    flat = grid.view(-1)
    edges = torch.tensor([-1, 1, 0, -1.25, 1.25, 0.75, -3, 5], dtype=dtype)
    flat[: len(edges)] = edges
    return grid


PLACES = [
    ((5, 7), torch.float32, 2e-5),
    ((5, 7), torch.float64, 1e-12),
    ((1, 4), torch.float32, 2e-5),
    ((3, 4, 2), torch.float32, 2e-5),
]


@pytest.mark.grid(12)
@pytest.mark.parametrize(
    "way, extents, dtype, tolerance",
    [(way, *p) for p in PLACES for way in (WAYS if len(p[0]) == 2 else OF_VOLUMES)],
)
def test_places_anywhere(way, extents, dtype, tolerance):
    torch.manual_seed(0)
    x = torch.randn(2, 3, *extents, dtype=dtype)
    check(way, x, far(2, *(4, 5, 3)[: len(extents)], len(extents), dtype=dtype), tolerance)


@pytest.mark.grid
@pytest.mark.parametrize(
    "way, rank", [*((way, 2) for way in WAYS), *((way, 3) for way in OF_VOLUMES)]
)
def test_places_that_are_none_mean_what_they_do_in_pytorch(way, rank):
    x = torch.arange(1.0, 1 + 4 * 5 * 3 ** (rank - 2)).reshape(1, 1, *(4, 5, 3)[:rank])
    grid = torch.zeros(1, len(SPECIAL) - (rank == 3), *[1] * (rank - 2), rank, rank)
    for i in range(grid.shape[1]):
        for axis in range(rank):  # far outside, the reflection of volumes is rounded otherwise
            grid[0, i, ..., axis, axis] = SPECIAL[i]
    check(way, x, grid, 1e-5)


@pytest.mark.grid
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_element_that_is_not_finite_stays_where_it_is_read(value, way):
    x = torch.randn(1, 1, 4, 5)
    x[0, 0, 3, 4] = value
    x[0, 0, 0, 2] = -value
    check(way, x, far(1, 4, 6, 2), 2e-5)


@pytest.mark.grid
@pytest.mark.parametrize("way", WAYS)
def test_a_batch_of_any_size(way):
    batch = torch.export.Dim("batch", min=1, max=8)
    extents = {"x": {0: batch}, "grid": {0: batch}}
    check(way, torch.randn(3, 2, 4, 5), far(3, 4, 6, 2), 2e-5, extents)
