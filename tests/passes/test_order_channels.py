"""Channels ordered by taps: the same results, fewer stored taps, neighbours left whole."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tvm_sparse as ts
from tvm_sparse.passes.shrink.order_channels import LANES, order_by_taps, shared_taps

FAST = ts.Config(measure=False)


class Gate(nn.Module):
    """Squeeze-excite: scales each channel by a function of all channels' means."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 8, 1), nn.Conv2d(8, channels, 1)

    def forward(self, x):
        gate = torch.relu(self.down(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.up(gate))


def separable(channels=64, gate=True) -> nn.Module:
    torch.manual_seed(0)
    layers = [
        nn.Conv2d(8, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU6(),
        nn.Conv2d(channels, channels, 3, padding=1, groups=channels),
        nn.Hardswish(),
        Gate(channels) if gate else nn.Identity(),
        nn.Conv2d(channels, 12, 1),
    ]
    layers[1].running_mean.normal_()
    layers[1].bias.data.normal_()
    return nn.Sequential(*layers).eval()


def scatter_taps(weight: torch.Tensor, keep: int = 2) -> None:
    """Leave ``keep`` taps of each kernel, not the same ones in neighbouring channels."""
    kernels = weight.reshape(len(weight), -1)
    offsets = torch.arange(len(kernels))[:, None] * 5 % 4 * keep + torch.arange(keep)
    mask = torch.zeros_like(kernels).scatter(1, offsets % kernels.shape[1], 1.0)
    weight *= mask.reshape(weight.shape)


def compiled(model: nn.Module, x: torch.Tensor):
    library = ts.compile(model, (x,), config=FAST)
    with torch.no_grad():
        expected = model(x)
    assert float((library(x) - expected).abs().max()) <= 2e-5 * float(expected.abs().max())
    return {d.layer: d for d in library.decisions}


@pytest.mark.grid
@pytest.mark.parametrize("gate", [False, True])
def test_taps_become_common(gate):
    model = separable(gate=gate)
    scatter_taps(model[3].weight.data)
    found = compiled(model, torch.randn(2, 8, 6, 5))
    assert found["3"].chosen == "depthwise_taps"
    assert "share 22% of the taps instead of 89%" in found["3"].reason


@pytest.mark.grid
@pytest.mark.parametrize(
    ("conv", "kernel", "shape"),
    [(nn.Conv1d, 9, (2, 8, 33)), (nn.Conv3d, (2, 3, 2), (1, 8, 3, 5, 4))],
)
def test_taps_of_lines_and_volumes_become_common(conv, kernel, shape):
    torch.manual_seed(0)
    depth = conv(64, 64, kernel, padding=1, groups=64)
    scatter_taps(depth.weight.data)
    model = nn.Sequential(conv(8, 64, 1), nn.ReLU(), depth, nn.ReLU(), conv(64, 12, 1)).eval()
    found = compiled(model, torch.randn(shape))
    assert "channels ordered by their taps" in found["2"].reason


def test_a_pruned_neighbour_forbids_it():
    model = separable(gate=False)
    scatter_taps(model[3].weight.data)
    model[6].weight.data[:, ::2] *= torch.rand(12, 32, 1, 1) < 0.5
    found = compiled(model, torch.randn(1, 8, 6, 5))
    assert found["3"].chosen == "dense"


def test_an_output_forbids_it():
    model = separable(gate=False)[:5]
    scatter_taps(model[3].weight.data)
    found = compiled(model, torch.randn(1, 8, 6, 5))
    assert found["3"].chosen == "dense"


def test_dense_kernels_stay_in_order():
    found = compiled(separable(), torch.randn(1, 8, 6, 5))
    assert "ordered" not in found["3"].reason


@given(st.integers(1, 100), st.integers(1, 12), st.floats(0, 1), st.integers(0, 99))
def test_orders_are_permutations(channels, taps, density, seed):
    kept = np.random.default_rng(seed).random((channels, taps)) < density
    order = order_by_taps(kept)
    assert sorted(order) == list(range(channels))
    assert kept.sum() <= shared_taps(kept[order])


def test_order_finds_equal_channels():
    kept = np.zeros((4 * LANES, 9), bool)
    for i in range(4 * LANES):
        kept[i, [i % 4, 8 - i % 4]] = True
    assert shared_taps(kept) == 4 * LANES * 8
    assert shared_taps(kept[order_by_taps(kept)]) == 4 * LANES * 2
