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
    unit: int = 1
    """Open extents are multiples of it; their ranges count these."""

    def dims(self) -> dict[int, Any]:
        """Return the open axes as ``torch.export`` takes them."""
        found = {}
        for axis, (name, least, most) in self.open.items():
            dim = torch.export.Dim(name, min=least, max=most)
            found[axis] = dim if self.unit == 1 else self.unit * dim
        return found


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


class Lines(nn.Module):
    """A reader of text lines: convolutions to one row, two directions of an LSTM, 97 letters."""

    def __init__(self, size: int = 96) -> None:
        super().__init__()
        sizes = ((1, 32), (32, 64), (64, size), (size, size))
        self.rows = nn.Sequential(
            *(
                nn.Sequential(
                    nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
                    *(nn.BatchNorm2d(outputs), nn.ReLU()),
                    nn.MaxPool2d((2, 2) if i < 2 else (2, 1)),
                )
                for i, (inputs, outputs) in enumerate(sizes)
            )
        )
        self.steps = nn.LSTM(2 * size, 128, bidirectional=True, batch_first=True)
        self.head = nn.Linear(256, 97)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return letters for every four columns of lines of 32 rows."""
        y = self.rows(x).permute(0, 3, 1, 2).flatten(2)
        return self.head(self.steps(y)[0])


class Steps(nn.Module):
    """Two layers of an LSTM of 256 features over steps, and a head on each."""

    def __init__(self, size: int = 256) -> None:
        super().__init__()
        self.steps = nn.LSTM(80, size, num_layers=2, batch_first=True)
        self.head = nn.Linear(size, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return 40 numbers a step."""
        return self.head(self.steps(x)[0])


class Segments(nn.Module):
    """A U-Net of three levels, 32 to 128 channels, joined by upsampling and concatenation."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList((_two(3, 32), _two(32, 64), _two(64, 128)))
        self.up = nn.ModuleList((_two(128 + 64, 64), _two(64 + 32, 32)))
        self.head = nn.Conv2d(32, 5, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return five classes a pixel; extents are multiples of 4."""
        beside = []
        for i, level in enumerate(self.down):
            x = level(x if i == 0 else nn.functional.max_pool2d(x, 2))
            beside.append(x)
        for i, level in enumerate(self.up):
            x = nn.functional.interpolate(x, scale_factor=2.0)
            x = level(torch.cat([x, beside[1 - i]], 1))
        return self.head(x)


def _two(inputs: int, outputs: int) -> nn.Module:
    first, second = (nn.Conv2d(n, outputs, 3, padding=1) for n in (inputs, outputs))
    return nn.Sequential(first, nn.ReLU(), second, nn.ReLU())


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
    "reader of lines, width": OpenNetwork(
        Lines,
        {3: ("width", 4, 256)},
        (1, 1, 32, 320),
        tuple((1, 1, 32, width) for width in (100, 320, 640)),
        unit=4,
    ),
    "LSTM, steps": OpenNetwork(
        Steps,
        {1: ("steps", 1, 512)},
        (1, 100, 80),
        tuple((1, steps, 80) for steps in (20, 100, 300)),
    ),
    "U-Net, planes": OpenNetwork(
        Segments,
        {2: ("height", 8, 128), 3: ("width", 8, 128)},
        (1, 3, 128, 128),
        tuple((1, 3, size, size) for size in (96, 128, 256)),
        unit=4,
    ),
}
"""By name."""
