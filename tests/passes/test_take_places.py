"""TakePlaces: borders that a tensor repeats are read by shuffles, the values of PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts

BORDERS = {
    "reflect": nn.ReflectionPad2d((1, 3, 2, 1)),
    "replicate": nn.ReplicationPad2d((4, 0, 1, 2)),
    "circular": nn.CircularPad2d((3, 1, 0, 2)),
    "one side": nn.ReplicationPad2d((0, 2, 0, 0)),
    "lines": nn.Sequential(nn.Flatten(1, 2), nn.ReflectionPad1d((5, 4))),
}


class Joined(nn.Module):
    """Pieces of an input, joined along an axis."""

    def __init__(self, pieces, axis):
        super().__init__()
        self.pieces, self.axis = pieces, axis

    def forward(self, x):
        return torch.cat(self.pieces(x), self.axis)


OTHERS = {
    "two tensors": Joined(lambda x: [x, 2 * x], -1),
    "rows alone": Joined(lambda x: [x[..., :1, :], x], -2),
    "turned along another axis": Joined(lambda x: [x.flip(-2), x], -1),
    "with steps": Joined(lambda x: [x[..., ::2], x], -1),
}


def kernels(module, shape):
    """Return the names of the kernels, after comparing the result with PyTorch's."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    library = ts.compile(module, (x,), config=ts.Config(measure=False, tuned=False))
    torch.testing.assert_close(library(x), module(x), rtol=0, atol=0)
    return [kernel.function for kernel in library.kernels]


@pytest.mark.grid
@pytest.mark.parametrize("width", [9, 56])
@pytest.mark.parametrize("name", BORDERS)
def test_borders_are_columns_at_known_places(name, width):
    found = kernels(BORDERS[name], (2, 3, 7, width))
    assert any(kernel.startswith("take") for kernel in found)
    assert not any("concat" in kernel for kernel in found)


@pytest.mark.parametrize("name", OTHERS)
def test_other_pieces_are_joined(name):
    assert any("concat" in kernel for kernel in kernels(OTHERS[name], (2, 3, 7, 24)))


def test_a_piece_of_a_piece_is_of_the_tensor():
    again = Joined(lambda x: [x[..., 2:9].flip(-1)[..., 1:4], x[..., :5]], -1)
    assert kernels(again, (2, 3, 24)) == ["take"]


def test_channels_last_borders_stay_whole_vectors():
    module = nn.Sequential(nn.Conv2d(16, 16, 3), nn.ReflectionPad2d(1), nn.Conv2d(16, 16, 1))
    x = torch.randn(1, 16, 20, 20)
    library = ts.compile(module, (x,), config=ts.Config(measure=False, tuned=False))
    torch.testing.assert_close(library(x), module(x), rtol=1e-4, atol=1e-5)
    assert not any("take" in kernel.function for kernel in library.kernels)
