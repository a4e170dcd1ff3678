"""Small modules whose layers carry every kind of epilogue, and a check of their compiled form."""

from __future__ import annotations

import torch
from torch import nn

import tvm_sparse as ts


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 48)
        self.second = nn.Linear(48, 32)

    def forward(self, x):
        return torch.relu(x + self.second(nn.functional.gelu(self.first(x))))


class SqueezeExcite(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, padding=1)
        self.gate = nn.Conv2d(32, 32, 1)
        self.last = nn.Conv2d(32, 16, 1, bias=False)

    def forward(self, x):
        y = nn.functional.silu(self.conv(x))
        gate = torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
        return nn.functional.hardswish(self.last(y * gate)) + x


def linear_residual():
    return Residual(), torch.randn(24, 32)


def attention_rows():
    return nn.Sequential(nn.Linear(32, 48), nn.ReLU6(), nn.Linear(48, 17)), torch.randn(2, 9, 32)


def squeeze_excite():
    return SqueezeExcite(), torch.randn(1, 16, 7, 7)


def strided():
    layers = (
        nn.Conv2d(16, 24, 3, stride=2, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 20, (1, 3), dilation=2),
    )
    return nn.Sequential(*layers).eval(), torch.randn(2, 16, 11, 13)


MODULES = [linear_residual, attention_rows, squeeze_excite, strided]


def prune(model: nn.Module, rows: int, cols: int, sparsity: float) -> None:
    """Zero blocks of ``rows`` x ``cols`` neighbouring outputs and inputs, the same at every tap."""
    generator = torch.Generator().manual_seed(0)
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            down, across = layer.weight.shape[:2]
            kept = torch.rand(-(-down // rows), -(-across // cols), generator=generator) >= sparsity
            mask = kept.repeat_interleave(rows, 0).repeat_interleave(cols, 1)[:down, :across]
            layer.weight.data *= mask.reshape(*mask.shape, *[1] * (layer.weight.dim() - 2))


def assert_like_torch(model: nn.Module, x: torch.Tensor, format: str) -> ts.Library:
    """Compile every layer of ``model`` in ``format`` and compare with PyTorch."""
    library = ts.compile(model, (x,), config=ts.Config(measure=False, force={"*": format}))
    expected = model(x).detach()
    scale = float(expected.abs().max())
    for data in (x, misaligned(x)):
        assert float((library(data) - expected).abs().max()) <= 1e-5 * scale
    return library


def assert_like_torch_for_any_batch(block: tuple[int, int], sparsity: float, format: str) -> None:
    """Compile a linear layer with an open batch in ``format`` and compare it for several."""
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU())
    prune(model, *block, sparsity)
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(model, (torch.randn(20, 32),), dynamic_shapes=({0: batch},))
    library = ts.compile(program, config=ts.Config(measure=False, force={"*": format}))
    for rows in (1, 16, 50):
        x = torch.randn(rows, 32)
        assert float((library(x) - model(x).detach()).abs().max()) <= 1e-5


def misaligned(x: torch.Tensor) -> torch.Tensor:
    """Return ``x`` in memory that begins four bytes behind an aligned address."""
    return torch.cat([torch.zeros(1), x.flatten()])[1:].reshape(x.shape)
