"""Functions that TVM's analysis of reshapes cannot read stay kernels, the others become views."""

from __future__ import annotations

import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts


def test_convolutions_over_open_lengths():
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(4, 16, 3, padding=1), nn.ReLU(), nn.Conv1d(16, 32, 5), nn.ReLU()
    ).eval()
    config, length = ts.Config(measure=False), Dim("t", min=16, max=4096)
    library = ts.compile(
        model, (torch.randn(2, 4, 64),), dynamic_shapes=({2: length},), config=config
    )
    for extent in (16, 64, 1001):
        x = torch.randn(2, 4, extent)
        with torch.no_grad():
            torch.testing.assert_close(library(x), model(x), rtol=1e-4, atol=1e-5)


def test_reshapes_of_fixed_extents_are_no_kernels():
    model = nn.Sequential(nn.Linear(16, 64), nn.Unflatten(1, (8, 8)))
    library = ts.compile(model, (torch.randn(4, 16),), config=ts.Config(measure=False))
    assert len(library.kernels) == 1


class Shifted(nn.Module):
    """Scores of relative positions are shifted by a view, as XLNet shifts them."""

    def forward(self, x):
        rows, tokens = x.shape[:2]
        scores = x @ torch.cat([x, x[:, :-1]], 1).transpose(1, 2)
        turned = scores.reshape(rows, 2 * tokens - 1, tokens)[:, :, : tokens - 1]
        view = x.reshape(tokens, rows, 16)
        return turned.relu() * 2, view, x.transpose(0, 1).reshape(rows * tokens, 16) @ x[0].mT


def test_views_across_open_axes():
    torch.manual_seed(0)
    model, config = Shifted(), ts.Config(measure=False)
    rows, tokens = Dim("rows", min=1, max=8), Dim("tokens", min=2, max=64)
    example = torch.randint(-3, 4, (3, 5, 16)).float()
    library = ts.compile(model, (example,), dynamic_shapes=({0: rows, 1: tokens},), config=config)
    for shape in ((1, 2), (3, 5), (4, 17), (8, 64)):
        x = torch.randint(-3, 4, (*shape, 16)).float()
        kept = x.clone()
        found = library(x)
        assert all(map(torch.equal, found, model(x)))
        found[1].fill_(7.0)  # what is returned is no view of what was given
        assert torch.equal(x, kept)


class Turned(nn.Module):
    """A reshape between open axes, one of which is computed from the other."""

    def forward(self, x):
        rows, tokens = x.shape[:2]
        twice = torch.cat([x, x[:, 1:]], 1)
        scores = (twice @ x.mT).softmax(-1)
        return scores.reshape(rows, tokens, 2 * tokens - 1).softmax(-1)


def test_views_of_computed_extents_are_no_kernels():
    rows, tokens = Dim("rows", min=1, max=8), Dim("tokens", min=2, max=64)
    example, config = torch.randn(3, 5, 16), ts.Config(measure=False)
    axes = ({0: rows, 1: tokens},)
    library = ts.compile(Turned(), (example,), dynamic_shapes=axes, config=config)
    assert not [k.function for k in library.kernels if k.function.startswith("reshape")]
    for shape in ((1, 2), (3, 5), (8, 64)):
        x = torch.randn(*shape, 16)
        torch.testing.assert_close(library(x), Turned()(x))
