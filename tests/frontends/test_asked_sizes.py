"""Models whose conditions PyTorch cannot prove: imported where these hold at every size."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.export import Dim

import tvm_sparse as ts
from tests.modules import Apply

CONFIG = ts.Config(measure=False, cache=False, tuned=False)
SIZES = (2, 3, 7, 16, 31, 61)


class Pairs(Apply):
    def forward(self, x, y):
        return self.function(x, y)


def haar(x):
    return torch.cat([x[:, ::2] + x[:, 1::2], x[:, ::2] - x[:, 1::2]], 1)


FORMS = {
    "cut": lambda x: (
        x[:, : x.shape[1] // 2],
        torch.cat([x[:, x.shape[1] // 2 :], x[:, : x.shape[1] // 2]], 1),
    ),
    "joined": lambda x: (
        torch.cat([x[:, :1], x[:, 1:]], 1) * 2,
        torch.cat([x[:, ::2], x[:, 1::2]], 1),
        torch.hstack([x, x[:, 1:]]),
        torch.cat(x.split([1, x.shape[1] - 1], 1)[::-1], 1),
    ),
    "differences": lambda x: (x[:, 1:] - x[:, :-1], x.diff(dim=1), F.pad(x, (0, 0, -1, 0))),
    "counted": lambda x: (
        torch.arange(x.shape[1] - 1, -1, -1)[:, None] + x,
        torch.arange(0, x.shape[1], 2) + x[0, 0, 0],
        torch.arange(x.shape[1], 0, -3) + x[0, 0, 0],
    ),
    "turned": lambda x: (
        torch.roll(x, x.shape[1] // 2, 1),
        torch.roll(x, (-(x.shape[1] // 2), 1), (1, 2)),
        torch.fft.fftshift(x, 1),
    ),
    "sides of a diagonal": lambda x: (
        torch.triu(x @ x.mT, diagonal=x.shape[1] // 2),
        torch.tril(x @ x.mT, diagonal=-(x.shape[1] // 2)) + 1,
    ),
    "parts": lambda x: (
        *x.split([x.shape[1] // 2, x.shape[1] - x.shape[1] // 2], 1),
        x[:, -8:] + 1,
    ),
    "wavelets": lambda x: haar(x[:, : x.shape[1] // 2 * 2]),
    "last places": lambda x: x + torch.arange(64).float()[-x.shape[1] :, None],
}


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_right_at_every_size(name):
    model, shapes = Apply(FORMS[name]), ({1: Dim("n", min=2, max=61)},)
    library = ts.compile(model, (torch.rand(2, 9, 4),), dynamic_shapes=shapes, config=CONFIG)
    assert library.inputs[0].shape[1] == "n"
    for size in SIZES:
        x = torch.rand(2, size, 4)
        torch.testing.assert_close(library(x), model(x))


def test_planes_that_shrink_to_one():
    model = Apply(lambda x: F.interpolate(x, scale_factor=0.5) + F.avg_pool2d(x, 2))
    shapes = ({2: Dim("h", min=2, max=40), 3: Dim("w", min=2, max=40)},)
    library = ts.compile(model, (torch.rand(1, 3, 8, 9),), dynamic_shapes=shapes, config=CONFIG)
    for height, width in [(2, 2), (3, 7), (16, 2), (31, 40)]:
        x = torch.rand(1, 3, height, width)
        torch.testing.assert_close(library(x), model(x))


REFUSED = {
    "another branch at one size": lambda x: x * 2 if x.shape[1] - 1 == 1 else x,
    "another branch far away": lambda x: x * 2 if x.shape[1] > 16 else x,
    "axes that vanish": lambda x: x[:, 1:].squeeze() * 2,
    "as many operators as rows": lambda x: sum(x[:, i] for i in range(x.shape[1])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_results_at_some_size_are_refused(name):
    model, shapes = Apply(REFUSED[name]), ({1: Dim("n", min=2, max=61)},)
    with pytest.raises(ts.InputError, match="cannot leave these extents open") as caught:
        ts.load(model, (torch.rand(2, 9, 4),), dynamic_shapes=shapes)
    assert "TORCH_LOGS" not in str(caught.value)


def test_extents_of_two_names_that_must_be_equal_are_refused():
    model = Pairs(lambda x, y: x[:, 1:] + y[:, 1:])
    n, m = Dim("n", min=2, max=61), Dim("m", min=2, max=61)
    with pytest.raises(ts.InputError, match="cannot leave these extents open"):
        ts.load(model, (torch.rand(2, 9), torch.rand(2, 9)), dynamic_shapes=({1: n}, {1: m}))
