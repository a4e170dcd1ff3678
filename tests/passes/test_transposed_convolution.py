"""TransposedConvolution: plain convolutions with the values of transposed ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from tvm import relax, tirx

import tvm_sparse as ts
from tests.passes.modules import module, operators
from tvm_sparse.passes.canonical.transposed_convolution import TransposedConvolution

OPTIONS = {
    "plain": {"kernel_size": 3},
    "doubled": {"kernel_size": 4, "stride": 2, "padding": 1},
    "odd": {"kernel_size": 3, "stride": 2, "padding": 1, "output_padding": 1},
    "tiles": {"kernel_size": 2, "stride": 2},
    "groups": {"kernel_size": 3, "stride": 2, "groups": 2, "dilation": 2},
    "cropped": {"kernel_size": 1, "stride": 3, "padding": 1, "output_padding": 2},
}
LAYERS = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
CONFIG = ts.Config(measure=False, cache=False, tuned=False)


@pytest.mark.grid
@pytest.mark.parametrize("rank", LAYERS)
@pytest.mark.parametrize("name", OPTIONS)
def test_values(name, rank):
    layer = LAYERS[rank](4, 6, **OPTIONS[name]).requires_grad_(False)
    x = torch.randn(2, 4, 5, 6, 3)[(..., *[0] * (3 - rank))]
    torch.testing.assert_close(ts.compile(layer, (x,), config=CONFIG)(x), layer(x))


def test_up_and_down_as_in_every_u_net():
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.ConvTranspose2d(8, 4, 2, stride=2),
        nn.ReLU(),
        nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1),
        nn.Conv2d(4, 2, 1),
    )
    x = torch.randn(1, 3, 10, 12)
    with torch.no_grad():
        expected = network.eval()(x)
        found = ts.compile(network, (x,), config=CONFIG)(x)
    torch.testing.assert_close(found, expected)


OPEN = {"h": torch.export.Dim("h", min=3), "w": torch.export.Dim("w", min=3)}


@pytest.mark.grid
@pytest.mark.parametrize("name", OPTIONS)
def test_open_planes(name):
    layer = nn.ConvTranspose2d(4, 6, **OPTIONS[name])
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), layer).requires_grad_(False)
    x = torch.randn(2, 3, 5, 6)
    shapes = ({0: torch.export.Dim("n"), 2: OPEN["h"], 3: OPEN["w"]},)
    library = ts.compile(network, (x,), dynamic_shapes=shapes, config=CONFIG)
    for other in (x, torch.randn(1, 3, 7, 3), torch.randn(3, 3, 3, 17)):
        torch.testing.assert_close(library(other), network(other))


class UNet(nn.Module):
    """A step down and up again, whose result meets what was there before."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 4, 3, padding=1)

    def forward(self, x):
        a = torch.relu(self.a(x))
        inner = torch.relu(self.b(torch.max_pool2d(a, 2)))
        return self.out(torch.cat([a, self.up(inner)], 1))


def test_a_u_net_of_any_batch():
    network, x = UNet().eval().requires_grad_(False), torch.randn(3, 3, 12, 8)
    library = ts.compile(ts.load(network, (x,), dynamic_batch=True), config=CONFIG)
    for batch in (1, 3):
        torch.testing.assert_close(library(x[:batch]), network(x[:batch]))


def test_an_open_extent_is_lowered_as_a_static_one():
    height = tirx.Var("h", "int64")
    static, dynamic = (
        module(relax.op.nn.conv2d_transpose, (2, 3, extent, 8), (3, 4, 3, 3))
        for extent in (8, height)
    )
    for mod in (static, dynamic):
        assert "nn.conv2d_transpose" not in operators(TransposedConvolution()(mod))
