"""Numbers that values decide: read out of tensors, computed with, used as factors and places."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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
