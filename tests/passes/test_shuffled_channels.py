"""Shuffles of channels and pixels, and reductions, leave images channels last."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim
from tvm import relax

import tvm_sparse as ts
from tests.passes.test_sink_permutes import assert_sunk
from tvm_sparse.passes.graph.atoms import atoms_of

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SHAPE = (2, 4, 6, 8)


def first(x):
    return relax.op.permute_dims(x, (0, 3, 1, 2))


def last(x):
    return relax.op.permute_dims(x, (0, 2, 3, 1))


def shuffle(x, parts, axes, shape):
    return relax.op.reshape(relax.op.permute_dims(relax.op.reshape(x, parts), axes), shape)


CHAINS = {
    "pixels": (
        lambda x: last(shuffle(first(x), (2, 2, 2, 2, 4, 6), (0, 1, 4, 2, 5, 3), (2, 2, 8, 12))),
        1,
    ),
    "channels": (
        lambda x: last(shuffle(first(x), (2, 8, 2, 2, 3, 2), (0, 1, 3, 5, 2, 4), (2, 32, 2, 3))),
        1,
    ),
    "groups": (
        lambda x: last(shuffle(first(x), (2, 2, 4, 4, 6), (0, 2, 1, 3, 4), (2, 8, 4, 6))),
        1,
    ),
    "one image": (
        lambda x: last(
            shuffle(
                first(relax.op.reshape(x, (1, 8, 6, 8))),
                (1, 2, 2, 2, 8, 6),
                (0, 1, 4, 2, 5, 3),
                (1, 2, 16, 12),
            )
        ),
        1,
    ),
    "no whole parts": (
        lambda x: last(shuffle(first(x), (2, 4, 6, 8), (0, 2, 1, 3), (2, 8, 6, 4))),
        None,
    ),
    "reduced": (lambda x: last(relax.op.mean(first(x), [1], keepdims=True)), 0),
    "reduced planes": (lambda x: relax.op.max(first(x), [2, 3]), 0),
    "reduced rows": (lambda x: relax.op.sum(first(x), [-1]), None),
    "normed": (
        lambda x: last(relax.op.subtract(first(x), relax.op.mean(first(x), [1], keepdims=True))),
        0,
    ),
}


@pytest.mark.grid(3)
@pytest.mark.parametrize("name", CHAINS)
def test_chains(name):
    assert_sunk(*CHAINS[name], SHAPE, largest=8)


def test_parts_of_axes():
    steps = (("permute_dims", (1, 0)), ("reshape", (2, 3, 2, 2)), ("reshape", (6, 4)))
    before, behind = atoms_of((4, 6), steps)
    assert [(atom.extent, atom.axis) for atom in before] == [(2, 0), (2, 0), (2, 1), (3, 1)]
    assert [[before.index(atom) for atom in axis] for axis in behind] == [[2, 3], [0, 1]]
    assert atoms_of((4, 6), (("reshape", (3, 8)),)) == ([], [])


class Enlarged(nn.Module):
    """Half the plane and back, with channels that are normed between, as restorers have it."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.down = nn.Conv2d(16, 32, 2, 2)
        self.up = nn.Conv2d(32, 64, 1)
        self.packed = nn.Conv2d(64, 16, 1)

    def forward(self, x):
        x = F.pad(x, (0, -x.shape[3] % 2, 0, -x.shape[2] % 2))
        wide = self.first(x)
        y = F.pixel_shuffle(self.up(self.down(wide)), 2) + wide
        y = (y - y.amax(1, keepdim=True)).clamp(-8, 8)
        return (
            y
            + F.pixel_shuffle(F.pixel_unshuffle(y, 2), 2)
            + F.interpolate(
                F.channel_shuffle(self.packed(F.pixel_unshuffle(y, 2)), 4), scale_factor=2.0
            )
        )


def test_open_planes():
    torch.manual_seed(0)
    model = Enlarged().eval().requires_grad_(False)
    for weight in model.parameters():
        weight.copy_(torch.randint(-1, 2, weight.shape))
    shapes = ({0: Dim("n", max=4), 2: Dim("h", min=4, max=40), 3: Dim("w", min=4, max=40)},)
    library = ts.compile(model, (torch.rand(2, 3, 8, 12),), dynamic_shapes=shapes, config=CONFIG)
    for extents in ((1, 4, 4), (2, 7, 13), (4, 33, 16), (3, 16, 5)):
        x = torch.randint(-2, 3, (extents[0], 3, *extents[1:])).float()
        torch.testing.assert_close(library(x), model(x), rtol=0, atol=0)
