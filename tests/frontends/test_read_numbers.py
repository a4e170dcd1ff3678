"""Numbers that values or open extents decide: computed with, used as operands and places."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts
from tvm_sparse.errors import UnsupportedError

CONFIG = ts.Config(measure=False, cache=False, tuned=False)

INPUTS = [
    (torch.randn(6, 5), torch.tensor([2, 1])),
    (torch.randn(6, 5), torch.tensor([3, 4])),
    (torch.randn(6, 5), torch.tensor([0, 0])),
]


def best_boxes(y, k):
    scores, found = y[:, 4].clone(), []
    for _ in range(3):
        best = scores.argmax()
        found.append(y[best])
        scores = torch.where(torch.arange(6) == best, -1e9, scores)
    return torch.stack(found)


def farthest_points(y, k):
    distance, place, found = torch.full((6,), 1e10), torch.zeros((), dtype=torch.long), []
    for _ in range(3):
        found.append(place)
        distance = torch.minimum(distance, ((y - y[place]) ** 2).sum(-1))
        place = distance.argmax()
    return torch.stack(found)


def cache(y, k):
    n = k[0].item()
    torch._check(n >= 0)
    torch._check(n + 2 <= 6)
    held = y.clone()
    held[n : n + 2] = y[:2] * 2
    return held, y[n : n + 2], y.narrow(0, n, 2)


FUNCTIONS = {
    "index by argmax": lambda y, k: y[y[:, 4].argmax()],
    "negative": lambda y, k: y[k[0] - 4],
    "column": lambda y, k: (y[:, k[1]], y[..., k[1]], y[k[0], k[1]], y[k[0], 1:3], y[None, k[0]]),
    "select": lambda y, k: y.select(0, k[0]),
    "remainder": lambda y, k: y[(k[0].item() + 5) % 6],
    "factor": lambda y, k: (y * k[0].item(), 1 - y * k[0].item(), y + k[0].item() * 2 - 1),
    "float": lambda y, k: (y * y.max().item(), y / (y.abs().max().item() + 1)),
    "integer": lambda y, k: (k * k[0].item(), k // (k[0].item() + 1), k[0].item() / (y.abs() + 1)),
    "power": lambda y, k: y.abs() ** k[0].item(),
    "compared": lambda y, k: (y > k[0].item() / 3, k >= k[1].item()),
    "clamped": lambda y, k: y.clamp(max=y.mean().item()),
    "filled": lambda y, k: (torch.full((3,), k[0].item()), torch.full_like(y, y.sum().item())),
    "tensor": lambda y, k: (torch.tensor(k[0].item()) + 1, torch.tensor(k.tolist()) * 2),
    "masked": lambda y, k: y.masked_fill(y > 0, y.min().item()),
    "chosen": lambda y, k: torch.where(y > 0, y, y.min().item()),
    "truth": lambda y, k: y * (k[0] > 1).item(),
    "boxes": best_boxes,
    "points": farthest_points,
    "cache": cache,
}  # fmt: skip


class Network(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(5, 5), function

    def forward(self, y, k):
        return self.function(self.linear(y), k)


@pytest.mark.grid
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_are_those_of_pytorch(name):
    model = Network(FUNCTIONS[name]).eval()
    library = ts.compile(model, INPUTS[0], config=CONFIG)
    for inputs in INPUTS:
        with torch.no_grad():
            torch.testing.assert_close(library(*inputs), model(*inputs), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda y, k: y[: k[0].item()],
        lambda y, k: torch.arange(k[0].item()),
        lambda y, k: y.sum(0).repeat(k[0].item()),
    ],
)
def test_shapes_that_such_numbers_decide_are_refused(function):
    with pytest.raises(UnsupportedError, match="values decide the shape"):
        ts.load(Network(function).eval(), INPUTS[0])


def test_a_linear_layer_whose_results_are_compared():
    model = nn.Sequential(nn.Linear(64, 64))

    class Above(nn.Module):
        def forward(self, x):
            return model(x) > 0.1

    x = torch.randn(3, 64)
    library = ts.compile(Above(), (x,), config=CONFIG)
    assert torch.equal(library(x), model(x) > 0.1)


def whole(x):
    return (x * 9 - 4).long()


OF_EXTENTS = {
    "means": lambda x, n: (
        x.sum(0) / n,
        x.sum() / n,
        n / (x + 1),
        1 / n * x.sum(),
        x * (x > 0.5).sum(0) / n,
    ),
    "sums": lambda x, n: (x + n, n - x.sum(), x * n, x * (2 * n - 1), x * -n, torch.rsub(x, n)),
    "powers": lambda x, n: (x**n, (x - 0.5) ** n, n**x, x ** (1 / n), x * n**-0.5, x * n**2),
    "compared": lambda x, n: (
        x * 9 >= n,
        n > x * 9,
        x.sum() < n,
        x < 1 / n,
        whole(x) == n,
        torch.ne(x, n),
    ),
    "clamped": lambda x, n: (
        x.sum().clamp(max=n),
        (x * 9).clamp(n - 2, n),
        (x * 9).clamp_min(n / 2),
    ),
    "hard": lambda x, n: nn.functional.hardtanh(x * 9 - 4, -n, n),
    "chosen": lambda x, n: (
        torch.where(x > 0.5, n, x),
        torch.where(x > 0.5, x, n / 3),
        x.masked_fill(x > 0.5, n),
    ),
    "rounded": lambda x, n: (
        (x * 20) // n,
        n // (x + 1),
        torch.div(x * 20, n, rounding_mode="trunc"),
    ),
    "rests": lambda x, n: ((x * 20) % n, (x * 9) % (n / 2), torch.fmod(x * 20, n), n % (x + 1)),
    "scaled": lambda x, n: (
        torch.add(x, x, alpha=n),
        torch.sub(x, x, alpha=n / 2),
        torch.lerp(x, x * 2, 1 / n),
    ),
    "slopes": lambda x, n: (
        nn.functional.leaky_relu(x - 0.5, 1 / n),
        nn.functional.leaky_relu(x - 0.5, n),
        torch.addmm(x[0], x, x[:1].T @ x[:1], alpha=n, beta=1 / n),
    ),
    "filled": lambda x, n: (
        torch.full((3,), n / 2),
        torch.full((n, 2), n),
        torch.full((n, 2), n / 4),
        torch.full_like(x, n),
        torch.full_like(x, n - 1, dtype=torch.bool),
        x.new_full((2, 2), n),
    ),
    "whole": lambda x, n: (
        whole(x) * n,
        whole(x) // n,
        whole(x) % n,
        whole(x).clamp(max=n),
        whole(x) / n,
        whole(x) * (n / 2),
        whole(x).sum() - n,
    ),
    "narrow": lambda x, n: (
        whole(x).to(torch.int8) - n,
        whole(x).to(torch.int32).sum() // n,
        (whole(x) + 1) ** n,
    ),
    "halves": lambda x, n: (x.half() * n, x.bfloat16() / n, x.half().sum(0) / n, x.half() < n),
    "deviations": lambda x, n: (x.var(0), x.std(), x.std(0, correction=2), *torch.var_mean(x, 0)),
    "half deviations": lambda x, n: (x.half().std(0), x.bfloat16().var()),
    "double": lambda x, n: (x.double() / n, x.double() * (n / 3)),
    "numbers": lambda x, n: (x * (n // 2), x * (n % 3), x * max(n, 4), x / min(n, 4), x * (n > 5)),
    "nearest": lambda x, n: (x * round(n / 3), x + round(n / 2), x - math.ceil(n / 3)),
}


class OfExtents(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x, x.shape[0])


@pytest.mark.grid
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("name", OF_EXTENTS)
def test_open_extents_are_operands(name):
    model = OfExtents(OF_EXTENTS[name])
    open_rows = ({0: Dim("n", min=1)},)
    source = ts.load(model, (torch.rand(5, 3),), dynamic_shapes=open_rows)
    library = ts.compile(source, config=CONFIG)
    for rows in (1, 2, 7, 64):
        x = torch.rand(rows, 3, generator=torch.Generator().manual_seed(rows))
        error = 1e-2 if "hal" in name else 1e-5
        torch.testing.assert_close(library(x), model(x), rtol=error, atol=1e-6, equal_nan=True)


REAL = {
    "float": lambda x, n: x * float(n) ** -0.5,
    "square root": lambda x, n: x / math.sqrt(n),
    "filled": lambda x, n: torch.full((n, 3), float(n)) + x,
}


@pytest.mark.grid
@pytest.mark.parametrize("name", REAL)
def test_extents_that_became_real_numbers_in_a_program(name):
    """Python makes numbers of extents; PyTorch's strict export sees ``torch.sym_float``."""
    model, shapes = OfExtents(REAL[name]), ({0: Dim("n", min=2, max=64)},)
    program = torch.export.export(model, (torch.rand(5, 3),), dynamic_shapes=shapes, strict=True)
    library = ts.compile(program, config=CONFIG)
    for rows in (2, 7, 64):
        x = torch.rand(rows, 3)
        torch.testing.assert_close(library(x), model(x), rtol=1e-6, atol=1e-7)


def test_an_extent_is_an_operand_and_a_shape():
    class Pooled(nn.Module):
        def forward(self, x):
            rows = x.shape[0]
            return x.reshape(rows * 3) / rows, torch.arange(rows) / (rows + 1)

    source = ts.load(Pooled(), (torch.rand(5, 3),), dynamic_shapes=({0: Dim("n", min=1)},))
    library = ts.compile(source, config=CONFIG)
    for rows in (1, 6):
        x = torch.rand(rows, 3)
        torch.testing.assert_close(library(x), Pooled()(x))


def test_a_number_read_and_an_extent():
    class Both(nn.Module):
        def forward(self, x, k):
            return x * (k[0].item() + x.shape[0])

    example = (torch.rand(5, 3), torch.tensor([2]))
    source = ts.load(Both(), example, dynamic_shapes=({0: Dim("n", min=1)}, None))
    library = ts.compile(source, config=CONFIG)
    for rows in (1, 6):
        x, k = torch.rand(rows, 3), torch.tensor([rows - 3])
        torch.testing.assert_close(library(x, k), Both()(x, k))
