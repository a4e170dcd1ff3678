"""Norms: by rows of neighbours where these are whole vectors, by their definition elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import tvm_sparse as ts


def _last(norm: nn.Module) -> nn.Module:
    """Return ``norm`` between convolutions, whose tensors are channels last."""
    channels = next(iter(norm.parameters())).shape[0]
    return nn.Sequential(nn.Conv2d(channels, channels, 1), norm, nn.Conv2d(channels, channels, 1))


ROWS = {
    "groups of small planes": (nn.GroupNorm(4, 16), (2, 16, 7, 7)),
    "groups of odd planes": (nn.GroupNorm(2, 6), (2, 6, 5, 11)),
    "groups of lines": (nn.GroupNorm(3, 12), (1, 12, 10)),
    "groups of volumes": (nn.GroupNorm(1, 3), (2, 3, 2, 3, 5)),
    "planes": (nn.InstanceNorm2d(5, affine=True), (2, 5, 6, 7)),
    "lines": (nn.InstanceNorm1d(5), (2, 5, 33)),
    "all of an item": (nn.LayerNorm((3, 5, 7)), (2, 3, 5, 7)),
    "channels last": (_last(nn.GroupNorm(4, 32)), (1, 32, 6, 5)),
    "channels last, groups of ten": (_last(nn.GroupNorm(8, 80)), (2, 80, 3, 2)),
    "channels last, groups across vectors": (_last(nn.GroupNorm(2, 48)), (2, 48, 7, 5)),
    "channels last, one group": (_last(nn.GroupNorm(1, 24)), (2, 24, 6, 5)),
    "channels last, each its own": (_last(nn.InstanceNorm2d(16, affine=True)), (3, 16, 6, 5)),
    "channels last, shared between threads": (_last(nn.GroupNorm(8, 128)), (1, 128, 17, 19)),
    "two axes of three": (nn.LayerNorm((5, 7), bias=False), (2, 3, 5, 7)),
}
OTHERS = {
    "short rows": (nn.GroupNorm(4, 12), (2, 12, 5)),
    "no other axes": (nn.GroupNorm(4, 16), (3, 16)),
    "channels last, no whole vectors": (_last(nn.GroupNorm(4, 24)), (1, 24, 6, 5)),
}


def kernels(module: nn.Module, shape: tuple[int, ...]) -> str:
    """Return the names of the kernels, after comparing the result with PyTorch's."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
        x = torch.randn(shape, generator=generator) * 2 + 5
        library = ts.compile(module.eval(), (x,), config=ts.Config(measure=False, tuned=False))
        torch.testing.assert_close(library(x), module(x), rtol=1e-5, atol=1e-5)
    return " ".join(kernel.function for kernel in library.kernels)


@pytest.mark.grid
@pytest.mark.parametrize("name", ROWS)
def test_rows_of_neighbours(name):
    assert "_moments" in kernels(*ROWS[name])


@pytest.mark.grid
@pytest.mark.parametrize("name", ["groups of odd planes", "planes", "channels last, each its own"])
def test_rows_of_neighbours_of_an_open_batch(name):
    norm, (batch, *shape) = ROWS[name]
    library = opened(norm.eval(), batch, shape)
    assert "_moments" in " ".join(kernel.function for kernel in library.kernels)
    for batch in (1, 2, 17):
        x = torch.randn(batch, *shape) * 2 + 5
        torch.testing.assert_close(library(x), norm(x), rtol=1e-5, atol=1e-5)


def opened(module: nn.Module, batch: int, shape: list[int]) -> ts.Library:
    """Return the library of ``module`` for any batch."""
    dims = {0: torch.export.Dim("batch", min=1, max=20)}
    config = ts.Config(measure=False, tuned=False)
    x = torch.randn(batch, *shape)
    return ts.compile(module, (x,), dynamic_shapes=(dims,), config=config)


PLANES = [name for name, (_norm, shape) in ROWS.items() if len(shape) == 4 and "all" not in name]


@pytest.mark.grid
@pytest.mark.parametrize("name", [name for name in PLANES if "axes" not in name])
def test_rows_of_open_planes(name):
    """Rows of fewer than a vector, of whole ones, and of any number between."""
    norm, (batch, channels, *_) = ROWS[name]
    dims = {axis: torch.export.Dim(f"d{axis}", min=1, max=40) for axis in (2, 3)}
    norm, x = norm.eval(), torch.randn(batch, channels, 6, 10)
    config = ts.Config(measure=False, tuned=False)
    library = ts.compile(norm, (x,), dynamic_shapes=(dims,), config=config)
    assert "_moments" in " ".join(kernel.function for kernel in library.kernels)
    for height, width in ((1, 2), (3, 5), (4, 4), (7, 7), (2, 32), (8, 8), (13, 5), (17, 19)):
        x = torch.randn(batch, channels, height, width) * 2 + 5
        torch.testing.assert_close(library(x), norm(x), rtol=1e-5, atol=1e-5)


@pytest.mark.grid
@pytest.mark.parametrize("name", OTHERS)
def test_others_keep_their_definition(name):
    assert "_moments" not in kernels(*OTHERS[name])


def test_what_follows_is_fused():
    found = kernels(nn.Sequential(nn.GroupNorm(4, 16), nn.SiLU()), (2, 16, 7, 7))
    assert "fused_group_norm_tir_sigmoid" in found
