"""Functions whose indices, products or writes follow from open extents, at every size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply
from tvm_sparse_runtime import TensorError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SIZES = (1, 2, 3, 7, 16, 37)


def written(x, places, value):
    """Return a copy of ``x`` with ``value`` written to ``places``."""
    x = x.clone()
    x[places] = value
    return x


def without_diagonal(x):
    square = x @ x.T
    square.fill_diagonal_(0)
    return square


def rows(x):
    return torch.arange(6.0).reshape(2, 3) + x[0, 0]


GRID = torch.rand(1, 3, 5, 2, generator=torch.Generator().manual_seed(0)) * 2.4 - 1.2
PLACES = torch.rand(1, 2, 3, 5, 3, generator=torch.Generator().manual_seed(1)) * 2.4 - 1.2

FORMS = {
    "the largest half": lambda x: (
        *x.topk(x.shape[0] // 2 + 1, 0),
        x.topk(min(x.shape[0], 5), 0, largest=False, sorted=True).values,
    ),
    "taken along": lambda x: (
        torch.take_along_dim(x, x.argsort(0), 0),
        torch.take_along_dim(x, x.argsort(1)[:1, :2], 1),
        x.take_along_dim(x.flatten().argsort()),
    ),
    "triangles": lambda x: (
        torch.tril_indices(x.shape[0], x.shape[0]) + x[0, 0].long(),
        torch.triu_indices(x.shape[0], x.shape[0], dtype=torch.int32) + x[0, 0].int(),
        x @ x.T * torch.ones_like(x @ x.T).triu(1),
    ),
    "powers": lambda x: (
        torch.vander(x[:, 0]),
        torch.vander(x[:, 1], 3, increasing=True),
        torch.full((2,), x.shape[0] ** 2) + x[0, 0],
    ),
    "products": lambda x: (
        torch.kron(x, rows(x)),
        torch.kron(rows(x)[0], x),
        torch.linalg.multi_dot([x, x.T, x]),
    ),
    "distances": lambda x: (
        torch.cdist(x, rows(x)[:, :1].expand(2, 4) / 7, compute_mode="use_mm_for_euclid_dist"),
        torch.cdist(x, torch.cat([x, x]) + 3),
        torch.cdist(x, x, 1.0),
    ),
    "a diagonal": lambda x: (
        torch.trace(x),
        x.diagonal() * 2,
        x.diagonal(-1) + 1,
        x.T.diagonal(-1) - 1,
        without_diagonal(x),
    ),
    "written": lambda x: (
        written(x, slice(1, -1), 7.0),
        written(x, slice(None, 3), x[:3] * 2),
        written(x, slice(None, None, 2), x[::2] + 1),
        written(x, (slice(None), slice(1, 3)), x[:, 2:] * 5),
        torch.slice_scatter(x, x[:, :1] * 3, 1, 2, 3),
    ),
    "turned": lambda x: (x.roll(9, 0), x.roll(-2, 0), x.roll((3, 1), (0, 1)) * 2),
    "sampled": lambda x: (
        F.grid_sample(x[None, None], GRID, align_corners=False),
        F.grid_sample(x[None, None], GRID, "nearest", "border", align_corners=True),
        F.grid_sample(x.T[None, None], GRID, "bicubic", "reflection", align_corners=False),
        F.grid_sample(x[None, None, None], PLACES, align_corners=False),
    ),
    "parts": lambda x: (
        *(part.sum(0) for part in torch.tensor_split(x, 3)),
        *(part * 2 for part in x.tensor_split((1, 3))),
    ),
}
"""Forms of a matrix of 4 columns, the number of whose rows is open."""


@pytest.mark.grid
@pytest.mark.parametrize("bound", [None, 40])
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_right_at_every_size(name, bound):
    model = Apply(FORMS[name])
    dim = Dim("n") if bound is None else Dim("n", min=1, max=bound)
    library = ts.compile(model, (torch.rand(6, 4),), dynamic_shapes=({0: dim},), config=CONFIG)
    for size in SIZES:
        x = torch.randint(-3, 4, (size, 4)).float() + torch.rand(size, 4) / 2
        for got, wanted in zip(library(x), model(x), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def of_two_or_more(x):
    return (
        torch.pdist(x),
        torch.triu_indices(x.shape[0], x.shape[0], 1) + 1,
        written(x, slice(-2, None), -x[-2:]),
        *torch.gradient(x, spacing=0.5),
    )


def test_forms_of_two_rows_or_more():
    model, shapes = Apply(of_two_or_more), ({0: Dim("n", min=2, max=40)},)
    library = ts.compile(model, (torch.rand(6, 4),), dynamic_shapes=shapes, config=CONFIG)
    for size in SIZES[1:]:
        x = torch.rand(size, 4)
        for got, wanted in zip(library(x), model(x), strict=True):
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)


def test_distances_of_few_rows_are_exact_where_both_numbers_are_open():
    """The distance of a row to itself is zero; by products it would be a rounded one."""
    model, shapes = Apply(lambda x: torch.cdist(x, x)), ({0: Dim("n", min=2, max=40)},)
    library = ts.compile(model, (torch.rand(6, 4),), dynamic_shapes=shapes, config=CONFIG)
    for size in (2, 25, 26, 40):
        assert library(torch.rand(size, 4) * 100).diagonal().eq(0).all()


def test_pieces_that_the_memory_does_not_hold_are_not_read():
    """Behind a write, nothing is fused with the piece: ``x[1:-1]`` of one row has none."""
    model = Apply(lambda x: (written(x, slice(1, -1), 7.0) * 2, x[1:-1] + 1))
    library = ts.compile(model, (torch.rand(6, 4),), dynamic_shapes=({0: Dim("n")},), config=CONFIG)
    for size in SIZES:
        x = torch.rand(size, 4)
        for got, wanted in zip(library(x), model(x), strict=True):
            assert torch.equal(got, wanted)


@pytest.mark.parametrize("function", [lambda x: x[:1] * 2, lambda x: x[0], lambda x: x.amax(0)])
def test_no_row_is_refused_where_one_is_read(function):
    shapes = ({0: Dim("n")},)
    library = ts.compile(Apply(function), (torch.rand(6, 4),), dynamic_shapes=shapes, config=CONFIG)
    with pytest.raises(TensorError, match="at least 1"):
        library(torch.rand(0, 4))


def test_no_row_gives_none():
    model, shapes = Apply(lambda x: (x * 2, x.sum(0))), ({0: Dim("n")},)
    library = ts.compile(model, (torch.rand(6, 4),), dynamic_shapes=shapes, config=CONFIG)
    rows, sums = library(torch.rand(0, 4))
    assert rows.shape == (0, 4) and torch.equal(sums, torch.zeros(4))


def test_nothing_is_printed_of_sizes_at_which_the_model_does_not_run(capfd):
    model, shapes = Apply(lambda x: x.unfold(0, 2, 2) * 2), ({0: Dim("n")},)
    ts.compile(model, (torch.rand(6, 4),), dynamic_shapes=shapes, config=CONFIG)
    assert capfd.readouterr() == ("", "")


def test_refusals_call_an_extent_by_its_input():
    """A transform of so many rows: its number of steps follows from them."""
    model = Apply(lambda x: torch.fft.irfft2(torch.complex(x, x)[None]))
    shapes = ({0: Dim("n", min=2)},)
    with pytest.raises(ts.UnsupportedError, match=r"an axis of x\.shape\[0\]"):
        ts.load(model, (torch.rand(6, 4),), dynamic_shapes=shapes)
