"""Parts of networks with open extents: what is open, what they are traced at, what is timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class OpenNetwork:
    """A network, its open axes with their ranges, the example's shape, and the shapes to time."""

    make: Callable[[], nn.Module]
    open: Mapping[int, tuple[str, int, int]]
    example: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    def dims(self) -> dict[int, Any]:
        """Return the open axes as ``torch.export`` takes them."""
        return {
            axis: torch.export.Dim(name, min=least, max=most)
            for axis, (name, least, most) in self.open.items()
        }


class Encoder(nn.Module):
    """A layer of a BERT-like encoder: 384 features in 12 heads."""

    def __init__(self, size: int = 384, heads: int = 12) -> None:
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(size, size) for _ in range(4))
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.first, self.second = nn.LayerNorm(size), nn.LayerNorm(size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the next layer's input, of the same shape."""
        batch, tokens, size = x.shape
        shape = (batch, tokens, self.heads, size // self.heads)
        q, k, v = (f(x).view(shape).transpose(1, 2) for f in (self.q, self.k, self.v))
        scores = q @ k.transpose(-1, -2) * shape[-1] ** -0.5
        seen = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, tokens, size)
        x = self.first(x + self.o(seen))
        return self.second(x + self.down(nn.functional.gelu(self.up(x))))


class Patches(nn.Module):
    """The beginning and a layer of a vision transformer, and a head on its class token."""

    def __init__(self, size: int = 384) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, size))
        self.places = nn.Parameter(torch.randn(1, 197, size))
        self.layer, self.head = Encoder(size, 6), nn.Linear(size, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the head's 100 numbers of each image."""
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.token.expand(y.shape[0], -1, -1), y], 1) + self.places
        return self.head(self.layer(y)[:, 0])


class _Residual(nn.Module):
    """ResNet-50's bottleneck, or MobileNetV2's inverted residual (``depthwise``)."""

    def __init__(
        self, inputs: int, middle: int, outputs: int, stride: int, *, depthwise: bool = False
    ) -> None:
        super().__init__()
        act, groups = (nn.ReLU6, middle) if depthwise else (nn.ReLU, 1)
        self.body = nn.Sequential(
            *(nn.Conv2d(inputs, middle, 1, bias=False), nn.BatchNorm2d(middle), act()),
            nn.Conv2d(middle, middle, 3, stride, 1, groups=groups, bias=False),
            *(nn.BatchNorm2d(middle), act()),
            *(nn.Conv2d(middle, outputs, 1, bias=False), nn.BatchNorm2d(outputs)),
        )
        self.last = nn.Identity() if depthwise else nn.ReLU()
        same = stride == 1 and inputs == outputs
        self.beside: nn.Module | None = nn.Identity() if same else None
        if not same and not depthwise:
            self.beside = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        y = self.body(x)
        return self.last(y if self.beside is None else y + self.beside(x))


def residual() -> nn.Module:
    """Return the stem of ResNet-50, three of its blocks and a classifier."""
    blocks = (_Residual(64, 64, 256, 1), _Residual(256, 128, 512, 2), _Residual(512, 128, 512, 1))
    stem = (nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
    tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *tail)


def inverted() -> nn.Module:
    """Return the stem of MobileNetV2, four of its blocks and a classifier."""
    sizes = ((32, 32, 16, 1), (16, 96, 24, 2), (24, 144, 24, 1), (24, 144, 32, 2))
    blocks = (_Residual(*size, depthwise=True) for size in sizes)
    stem = (nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6())
    last = (nn.Conv2d(32, 192, 1), nn.ReLU6())
    tail = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(192, 100))
    return nn.Sequential(*stem, *blocks, *last, *tail)


BATCH = {0: ("batch", 1, 64)}
PLANES = {2: ("height", 32, 512), 3: ("width", 32, 512)}
_IMAGES = tuple((batch, 3, 224, 224) for batch in (1, 8))
_PLANES = tuple((1, 3, size, size) for size in (160, 224, 320))

NETWORKS = {
    "encoder": OpenNetwork(
        Encoder,
        {**BATCH, 1: ("tokens", 1, 512)},
        (2, 64, 384),
        ((1, 16, 384), (1, 64, 384), (1, 128, 384), (8, 64, 384)),
    ),
    "vision transformer, batch": OpenNetwork(Patches, BATCH, (2, 3, 224, 224), _IMAGES),
    "ResNet-50, batch": OpenNetwork(residual, BATCH, (2, 3, 224, 224), _IMAGES),
    "ResNet-50, planes": OpenNetwork(residual, PLANES, (1, 3, 224, 224), _PLANES),
    "MobileNetV2, batch": OpenNetwork(inverted, BATCH, (2, 3, 224, 224), _IMAGES),
    "MobileNetV2, planes": OpenNetwork(inverted, PLANES, (1, 3, 224, 224), _PLANES),
}
"""By name."""
