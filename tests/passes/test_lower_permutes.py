"""LowerPermutes: a transposition writes the borders that a layer wants around its result."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.export import Dim

import tvm_sparse as ts

PLANES = Dim("h", min=2, max=99), Dim("w", min=2, max=99)
CONFIG = ts.Config(measure=False, tuned=False)


def kernels(library: ts.compiler.Library) -> list[str]:
    return [k.function for k in library.kernels]


@pytest.mark.grid
@pytest.mark.parametrize(
    "layer, shape",
    [
        (nn.Conv1d(20, 16, 5, padding=4, dilation=2), (2, 20, 17)),
        (nn.Conv2d(16, 16, 3, padding=1), (1, 16, 4, 5)),
        (nn.Conv2d(32, 32, (3, 1), padding=(1, 0), groups=2, stride=2), (3, 32, 7, 9)),
        (nn.Conv3d(16, 16, 3, padding=(1, 0, 2)), (2, 16, 3, 5, 4)),
        (nn.Conv2d(16, 32, 3, padding=1, groups=16), (1, 16, 6, 6)),
    ],
)
def test_a_layer_of_an_input_that_is_channels_first(layer, shape):
    x = torch.randn(shape)
    library = ts.compile(layer.eval(), (x,), config=CONFIG)
    assert "permute_bordered" in kernels(library)
    assert not any(k.startswith("pad") for k in kernels(library))
    with torch.no_grad():
        expected = layer.double()(x.double()).numpy()
    for _ in range(2):
        np.testing.assert_allclose(library(x).numpy(), expected, atol=2e-5)


def test_a_transposition_that_several_read_has_no_borders():
    layer, x = nn.ConvTranspose2d(16, 16, 4, stride=2, padding=1).eval(), torch.randn(1, 16, 6, 6)
    library = ts.compile(layer, (x,), config=CONFIG)
    assert "permute_bordered" not in kernels(library)
    with torch.no_grad():
        expected = layer.double()(x.double()).numpy()
    np.testing.assert_allclose(library(x).numpy(), expected, atol=2e-5)


@pytest.mark.parametrize("dims", [{}, {0: Dim("n", max=4)}, {2: PLANES[0], 3: PLANES[1]}])
@pytest.mark.parametrize("numbers", ["floats", "bytes"])
def test_few_channels_move_behind_lines_and_get_borders(dims, numbers):
    torch.manual_seed(0)
    layer, x = nn.Conv2d(3, 16, 3, padding=1).eval(), torch.randn(1, 3, 8, 33)
    given = {"dynamic_shapes": (dims,)} if dims else {}
    if numbers == "bytes":
        seen = torch.empty(1, 3, *((40, 40) if 2 in dims else (8, 33))).uniform_(-5, 5)
        model = ts.quantize(layer, [(seen,)], **given)
        library = ts.compile(model, (x,), config=CONFIG)
    else:
        library = ts.compile(layer, (x,), config=CONFIG, **given)
    assert any(k.startswith("channels_behind") for k in kernels(library))
    assert not any(k.startswith("pad") for k in kernels(library))
    for n, high, wide in ((1, 8, 33), (3, 8, 33) if 0 in dims else (1, 8, 33), (1, 2, 5)):
        x = torch.randn(n, 3, *((high, wide) if 2 in dims else (8, 33)))
        with torch.no_grad():
            atol = 0.1 if numbers == "bytes" else 2e-5
            np.testing.assert_allclose(library(x).numpy(), layer(x).numpy(), atol=atol)
