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
