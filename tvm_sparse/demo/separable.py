"""A small MobileNet-style network for the handwritten digits: depthwise separable blocks."""

from __future__ import annotations

import torch
from torch import nn

BLOCKS = ((32, 96, 48, 1), (48, 96, 48, 1), (48, 128, 64, 2), (64, 192, 64, 1))
"""Input, expanded and output channels and stride of each inverted residual block."""


class InvertedResidual(nn.Module):
    """PW-conv1, depthwise 3x3, PW-conv2, each with batch norm (MobileNet-V2's block).

    The input is added where its shape is that of the output.
    """

    def __init__(self, before: int, wide: int, after: int, stride: int) -> None:
        super().__init__()
        self.expand = _conv(before, wide, 1)
        self.depthwise = _conv(wide, wide, 3, stride=stride, groups=wide)
        self.project = _conv(wide, after, 1, activation=False)
        self.residual = before == after and stride == 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, before, h, w)`` to ``(n, after, h / stride, w / stride)``."""
        y = self.project(self.depthwise(self.expand(x)))
        return x + y if self.residual else y


def build_separable(seed: int = 0) -> nn.Sequential:
    """Return an untrained network ``(n, 1, 8, 8) -> (n, 10)``; its weights depend on ``seed``."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = nn.Sequential()
        model.add_module("stem", _conv(1, BLOCKS[0][0], 3))
        model.add_module("blocks", nn.Sequential(*(InvertedResidual(*b) for b in BLOCKS)))
        model.add_module("head", _conv(BLOCKS[-1][2], 128, 1))
        model.add_module("pool", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()))
        model.add_module("classifier", nn.Linear(128, 10))
    return model.eval()


def _conv(
    before: int, after: int, size: int, *, stride: int = 1, groups: int = 1, activation: bool = True
) -> nn.Sequential:
    """Return convolution, batch norm and (unless told otherwise) ReLU."""
    layers = nn.Sequential(
        nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(after),
    )
    return layers.append(nn.ReLU()) if activation else layers
