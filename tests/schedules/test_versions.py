"""Versions of a kernel: open extents of any size, with the bits of the closed program."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
EXTENTS = (1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 37)
"""Around the extents of tiles, and primes."""


def dims(*names):
    """Return open extents."""
    return {axis: torch.export.Dim(name) for axis, name in enumerate(names) if name}


def mlp(sparsity):
    """Return two layers with what is fused behind them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(48, 96), nn.GELU(), nn.Linear(96, 40)).eval()
    if sparsity:
        ts.prune.balanced(model, sparsity).squash_mask()
    return model.requires_grad_(False)


@pytest.mark.grid
@pytest.mark.parametrize("sparsity", [0, 0.75])
def test_linear_layers_over_open_tokens(sparsity):
    model, x = mlp(sparsity), torch.randn(2, 64, 48)
    opened = ts.compile(model, (x,), dynamic_shapes=(dims("n", "t"),), config=CONFIG)
    closed = ts.compile(model, (x,), config=CONFIG)
    assert [d.chosen for d in opened.decisions] == [d.chosen for d in closed.decisions]
    assert torch.equal(opened(x), closed(x))
    for extent in EXTENTS:
        y = torch.randn(3, extent, 48)
        torch.testing.assert_close(opened(y), model(y), rtol=1e-4, atol=1e-5)


class Attention(nn.Module):
    """Attention of two sequences, without projections."""

    def forward(self, x, y):
        heads = (x.shape[0], -1, 4, 16)
        q, k = x.reshape(heads).transpose(1, 2), y.reshape(heads).transpose(1, 2)
        scores = torch.softmax(q @ k.transpose(-1, -2) / 4, -1)
        return (scores @ k).transpose(1, 2).reshape(x.shape)


def test_attention_over_open_lengths_of_two_sequences():
    model = Attention()
    x, y = torch.randn(2, 20, 64), torch.randn(2, 24, 64)
    shapes = (dims("n", "s"), {0: torch.export.Dim("n"), 1: torch.export.Dim("t")})
    opened = ts.compile(model, (x, y), dynamic_shapes=shapes, config=CONFIG)
    assert {k.rule for k in opened.kernels if "matmul" in k.function} == {"Contraction"}
    for s, t in zip(EXTENTS, reversed(EXTENTS), strict=True):
        x, y = torch.randn(3, s, 64), torch.randn(3, t, 64)
        torch.testing.assert_close(opened(x, y), model(x, y), rtol=1e-4, atol=1e-5)


@pytest.mark.grid
@pytest.mark.parametrize("extent", [16, 32, 37])
def test_products_have_the_bits_of_closed_ones(extent):
    x = torch.randn(2, extent, 64)
    shapes = (dims("n", "t"), dims("n", "t"))
    opened = ts.compile(Attention(), (x, x), dynamic_shapes=shapes, config=CONFIG)
    assert torch.equal(opened(x, x), ts.compile(Attention(), (x, x), config=CONFIG)(x, x))


def test_nothing_is_written_beside_short_results():
    model, shapes = Attention(), (dims("n", "t"), dims("n", "t"))
    x = torch.randn(2, 20, 64)
    opened = ts.compile(model, (x, x), dynamic_shapes=shapes, config=CONFIG)
    for extent in (1, 2, 5, 9):
        x = torch.randn(1, extent, 64)
        results = [opened(x, x).clone() for _ in range(3)]
        expected = model(x, x)
        for found in results:
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
