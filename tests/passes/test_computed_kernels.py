"""Convolutions whose weights are activations have operators of ours, exact and group by group."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import tvm_sparse as ts
from tvm_sparse.schedules.kernel import GENERIC

LAYERS = {
    "plain": (lambda x, w: F.conv2d(x, w, padding=1), (2, 16, 9, 8), (32, 16, 3, 3)),
    "odd extents": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1, dilation=2),
        (2, 5, 15, 11),
        (17, 5, 3, 3),
    ),
    "pointwise": (F.conv2d, (1, 24, 7, 7), (40, 24, 1, 1)),
    "groups": (lambda x, w: F.conv2d(x, w, groups=2), (1, 16, 6, 6), (32, 8, 3, 3)),
    "small groups": (lambda x, w: F.conv2d(x, w, groups=5), (2, 15, 6, 6), (10, 3, 3, 3)),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=20), (2, 20, 6, 6), (20, 1, 3, 3)),
    "multiplied": (lambda x, w: F.conv2d(x, w, padding=1, groups=8), (2, 8, 6, 6), (16, 1, 3, 3)),
    "lines": (lambda x, w: F.conv1d(x, w, padding=2, dilation=2), (2, 8, 30), (24, 8, 3)),
    "volumes": (lambda x, w: F.conv3d(x, w, padding=1), (1, 4, 4, 5, 6), (16, 4, 3, 3, 3)),
    "transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
        (1, 16, 5, 5),
        (16, 8, 4, 4),
    ),
    "modulated": (
        lambda x, w: F.conv2d(x.reshape(1, -1, 6, 6), w.reshape(-1, 8, 3, 3), groups=2),
        (2, 8, 6, 6),
        (2, 16, 8, 3, 3),
    ),
    "joined with what follows": (
        lambda x, w: torch.relu(F.conv2d(x, w, torch.ones(32))),
        (1, 8, 6, 6),
        (32, 8, 3, 3),
    ),
}


class Given(nn.Module):
    """A function of tensors as a model."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)


def _compiled(function, *inputs, **options):
    config = ts.Config(measure=False)
    return ts.compile(Given(function).eval(), inputs, config=config, **options)


def _integers(shape):
    return torch.randint(-4, 5, shape).float()


@pytest.mark.grid
@pytest.mark.parametrize("layer", LAYERS)
def test_results_are_exact_and_no_kernel_is_general(layer):
    function, *shapes = LAYERS[layer]
    inputs = [_integers(shape) for shape in shapes]
    library = _compiled(function, *inputs)
    products = [kernel for kernel in library.kernels if kernel.contraction]
    assert products and all(kernel.ours for kernel in library.kernels)
    assert all(kernel.rule not in GENERIC for kernel in products)
    assert torch.equal(library(*inputs), function(*inputs))


def test_an_open_batch():
    function, *shapes = LAYERS["plain"]
    x, w = (_integers(shape) for shape in shapes)
    batch = torch.export.Dim("batch", max=8)
    library = _compiled(function, x, w, dynamic_shapes={"tensors": ({0: batch}, None)})
    assert all(kernel.ours for kernel in library.kernels)
    x = _integers((5, *shapes[0][1:]))
    assert torch.equal(library(x, w), function(x, w))


def test_groups_do_not_meet_what_others_have():
    function, *shapes = LAYERS["small groups"]
    x, w = (_integers(shape) for shape in shapes)
    library = _compiled(function, x, w)
    x[:, 3], x[:, 6] = torch.nan, torch.inf
    torch.testing.assert_close(library(x, w), function(x, w), rtol=0, atol=0, equal_nan=True)
