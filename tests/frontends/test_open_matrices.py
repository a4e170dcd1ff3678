"""Matrices of open extents are factorised, or refused by name."""

from __future__ import annotations

import pytest
import torch
from torch import linalg
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SIZES = (1, 2, 7, 13)

SQUARE = {
    "inverse": linalg.inv,
    "solution": lambda x: linalg.solve(x, x[:, :2] + 1),
    "determinant": linalg.det,
    "logarithm": lambda x: linalg.slogdet(x).logabsdet,
    "lu": linalg.lu,
    "qr": linalg.qr,
    "pseudo-inverse": linalg.pinv,
    "condition": linalg.cond,
    "singular values": linalg.svdvals,
    "norms": lambda x: (
        linalg.matrix_norm(x, 2) + linalg.norm(x, -2, (0, 1), keepdim=True),
        linalg.norm(x, 2),
        linalg.matrix_norm(x[:, None], -2.0, (2, 0), keepdim=True, dtype=torch.float64),
        linalg.norm(x, 2, 1),
    ),
}
OBLONG = {
    "lu": linalg.lu,
    "packed": lambda x: linalg.lu_factor(x)[0],
    "qr": linalg.qr,
    "product": lambda x: torch.logdet(x.mT @ x + torch.eye(x.shape[-1])),
}


def compiled(function, x: torch.Tensor, axes: dict[int, Dim]) -> ts.Library:
    return ts.compile(Apply(function), (x,), dynamic_shapes=(axes,), config=CONFIG)


def matrix(*extents: int) -> torch.Tensor:
    made = torch.rand(extents, generator=torch.Generator().manual_seed(sum(extents)))
    return made + 2 * torch.eye(*extents[-2:])


def assert_alike(found, wanted) -> None:
    for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, wanted)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SQUARE)
def test_square_ones(name):
    n = Dim("n", min=1, max=50)
    library = compiled(SQUARE[name], matrix(5, 5), {0: n, 1: n})
    for size in SIZES[1:] if name == "solution" else SIZES:
        x = matrix(size, size)
        assert_alike(library(x), SQUARE[name](x))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", OBLONG)
def test_oblong_ones(name, axis):
    library = compiled(OBLONG[name], matrix(5, 4), {axis: Dim("n", max=50)})
    for size in SIZES:
        x = matrix(size, 4) if axis == 0 else matrix(5, size)
        assert_alike(library(x), OBLONG[name](x))


def test_singular_values_of_what_is_always_tall():
    library = compiled(linalg.svdvals, matrix(9, 4), {0: Dim("n", min=4, max=50)})
    for size in (4, 5, 23):
        x = matrix(size, 4)
        assert_alike(library(x), linalg.svdvals(x))


def test_singular_values_of_what_may_be_tall_or_wide_are_refused():
    with pytest.raises(ts.SparseError, match=r"'torch.linalg.svd': takes matrices .* range"):
        compiled(linalg.svdvals, matrix(9, 4), {0: Dim("n", min=2, max=50)})


def test_of_more_pivots_than_steps_the_first_are_used():
    def unpacked(x):
        return torch.lu_unpack(x, torch.arange(x.shape[0], dtype=torch.int32) % 3 + 1)

    library = compiled(unpacked, matrix(5, 4), {0: Dim("n", min=3, max=50)})
    for rows in (3, 4, 6, 9):
        assert_alike(library(matrix(rows, 4)), unpacked(matrix(rows, 4)))
