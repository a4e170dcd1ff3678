"""Random chains of transpositions and reshapes across open axes, alone and before products."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts

QUICK, ALL = 4, 120
SIZES = ((1, 1), (3, 5), (7, 2), (2, 31), (16, 64))


class Viewed(nn.Module):
    """Two chains of views of ``(n, m, 4, 6)``, and a product of what they make."""

    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    def forward(self, x):
        rng = random.Random(self.seed)
        (n, m), one, other = x.shape[:2], chain(rng, x), chain(rng, x)
        products = (
            lambda: one.reshape(n, m, 24) @ other.reshape(n, 24, m),
            lambda: one.reshape(m, n * 24) @ other.reshape(n * 24, m),
            lambda: one.reshape(n * m, 4, 6) @ other.reshape(m * n, 6, 4),
            lambda: (
                one.reshape(n, m, 4, 6).permute(2, 0, 1, 3)
                @ other.reshape(n, m, 4, 6).permute(2, 0, 3, 1)
            ).reshape(n * 2, 2, m * m),
        )
        return one, rng.choice(products)()


def chain(rng, x):
    """Return ``x`` seen through one to four views, element-wise operators between them."""
    is_open = [True, True, False, False]
    for _ in range(rng.randint(1, 4)):
        axis = rng.randrange(x.dim())
        match rng.choice(["permute", "permute", "merge", "split", "turn"]):
            case "permute":
                order = rng.sample(range(x.dim()), x.dim())
                x, is_open = x.permute(order), [is_open[a] for a in order]
            case "merge" if axis + 1 < x.dim():
                is_open[axis : axis + 2] = [is_open[axis] or is_open[axis + 1]]
                x = x.flatten(axis, axis + 1)
            case "split" if not is_open[axis] and x.shape[axis] % 2 == 0:
                halves = rng.choice([(2, x.shape[axis] // 2), (x.shape[axis] // 2, 2)])
                is_open[axis : axis + 1] = [False, False]
                x = x.unflatten(axis, halves)
            case "turn":
                x = x.reshape(*x.shape[axis:], *x.shape[:axis])
                is_open = [*is_open[axis:], *is_open[:axis]]
        x = rng.choice([x, x, x + 1, x.relu()])
    return x


@pytest.mark.parametrize(
    "seed", [*range(QUICK), *(pytest.param(s, marks=pytest.mark.slow) for s in range(QUICK, ALL))]
)
def test_views_of_open_axes(seed):
    model, dims = Viewed(seed), {0: Dim("n", min=1, max=16), 1: Dim("m", min=1, max=64)}
    made = torch.Generator().manual_seed(seed)
    example = torch.randint(-3, 4, (3, 5, 4, 6), generator=made).float()
    config = ts.Config(measure=False)
    library = ts.compile(model, (example,), dynamic_shapes=(dims,), config=config)
    for size in SIZES:
        x = torch.randint(-3, 4, (*size, 4, 6), generator=made).float()
        assert all(map(torch.equal, library(x), model(x))), size


class RelativePositions(nn.Module):
    """Terms of the rows and columns of a plane for each head, as SAM adds to its scores."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(64, 192)
        self.rows, self.columns = (nn.Parameter(torch.randn(8, 8, 16)) for _ in range(2))

    def forward(self, x):
        batch, height, width, _ = x.shape
        qkv = self.query(x).reshape(batch, height * width, 3, 4, -1).permute(2, 0, 3, 1, 4)
        query = qkv.reshape(3, batch * 4, height * width, -1).unbind(0)[0]
        query = query.reshape(batch * 4, height, width, -1)
        rows = torch.einsum("bhwc,hkc->bhwk", query, self.rows)
        columns = torch.einsum("bhwc,wkc->bhwk", query, self.columns)
        return rows.unsqueeze(-1) + columns.unsqueeze(-2), rows


def test_rows_of_heads_of_an_open_batch_are_products():
    torch.manual_seed(0)
    model = RelativePositions().eval().requires_grad_(False)
    shapes, config = ({0: Dim("b", min=1, max=16)},), ts.Config(measure=False, cache=False)
    library = ts.compile(model, (torch.randn(2, 8, 8, 64),), dynamic_shapes=shapes, config=config)
    for batch in (1, 2, 3, 16):
        x = torch.randn(batch, 8, 8, 64)
        for found, wanted in zip(library(x), model(x), strict=True):
            torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


class Cut(nn.Module):
    """A layer of the pixels of planes, behind the columns that are cut off."""

    def __init__(self, columns):
        super().__init__()
        self.layer, self.columns = nn.Linear(8, 48), columns
        for weight in self.layer.parameters():
            weight.data = weight.data.mul(9).round()

    def forward(self, x):
        left = x.narrow(3, self.columns, x.shape[3] - self.columns)
        return self.layer(left.flatten(2).transpose(1, 2)).transpose(1, 2)


@pytest.mark.parametrize("columns", [1, 3])
def test_cut_planes_are_right_at_their_least_size(columns):
    """``14 * w - 14`` pixels tell that ``w`` is at least 1: TVM took it for at least 14."""
    model, made = Cut(columns).eval().requires_grad_(False), torch.Generator().manual_seed(0)
    example = torch.rand(3, 8, 14, 20)
    shapes = ({0: Dim("b", min=1, max=9), 3: Dim("w", min=columns + 1, max=33)},)
    config = ts.Config(measure=False, cache=False)
    library = ts.compile(model, (example,), dynamic_shapes=shapes, config=config)
    for width in (*range(columns + 1, columns + 5), 33):
        for batch in (1, 4):
            x = torch.randint(-3, 4, (batch, 8, 14, width), generator=made).float()
            assert torch.equal(library(x), model(x)), (batch, width)
