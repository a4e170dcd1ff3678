"""Random small networks with random patterns of zeros: what no list of cases thinks of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import nn

ACTIVATIONS: list[Callable[[], nn.Module]] = [
    nn.ReLU,
    nn.ReLU6,
    nn.SiLU,
    nn.Hardswish,
    nn.GELU,
    nn.Sigmoid,
    nn.Tanh,
    lambda: nn.LeakyReLU(0.1),
    nn.Identity,
]
WIDTHS = [3, 8, 16, 20, 32, 48, 50]


class Residual(nn.Module):
    """``body(x) + x``."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the shape of ``x``."""
        return self.body(x) + x


class Gate(nn.Module):
    """Squeeze-and-excite: channels scaled by what their means say."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, squeezed, 1), nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return a tensor of the shape of ``x``."""
        means = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(self.up(torch.relu(self.down(means))))


class Concat(nn.Module):
    """Two branches side by side, as in DenseNet."""

    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return ``x`` with the channels of the branch behind its own."""
        return torch.cat([x, self.branch(x)], 1)


class Drawn:
    """What is drawn of a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, values: list) -> object:
        """Return one of the values."""
        return values[int(self.rng.integers(len(values)))]

    def flip(self, chance: float = 0.5) -> bool:
        """Return whether something with such a chance happens."""
        return bool(self.rng.random() < chance)


class _Builder(Drawn):
    def norm(self, channels: int) -> nn.Module:
        norm = nn.BatchNorm2d(channels)
        with torch.no_grad():
            norm.running_mean.normal_(std=0.2)
            norm.running_var.uniform_(0.5, 2.0)
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.normal_(std=0.2)
        return norm

    def tail(self, channels: int) -> list[nn.Module]:
        norm = [self.norm(channels)] if self.flip() else []
        return [*norm, self.pick(ACTIVATIONS)()]

    def convolution(self, inputs: int, outputs: int, *, keep_size: bool = False) -> list[nn.Module]:
        kernel = (int(self.pick([1, 1, 3, 5])), int(self.pick([1, 3, 3])))
        if self.flip(0.7):
            kernel = (kernel[0], kernel[0])
        dilation = 2 if self.flip(0.15) else 1
        padding: object = tuple(dilation * (k - 1) // 2 for k in kernel)
        stride = 1
        if not keep_size:
            stride = 2 if self.flip(0.3) else 1
            padding = padding if self.flip(0.8) else (kernel[0] // 2, 0)
        bias = self.flip()
        conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, dilation, bias=bias)
        return [conv, *self.tail(outputs)]

    def depthwise(self, channels: int) -> list[nn.Module]:
        kernel = int(self.pick([3, 5]))
        stride = 2 if self.flip(0.3) else 1
        conv = nn.Conv2d(channels, channels, kernel, stride, kernel // 2, groups=channels)
        return [conv, *self.tail(channels)]

    def image_layers(self, channels: int) -> tuple[list[nn.Module], int]:
        """Return some layers for images of ``channels``, and how many channels they return."""
        kind = int(self.rng.integers(6))
        width = int(self.pick(WIDTHS))
        if kind == 0:
            return self.depthwise(channels), channels
        if kind == 1:
            body = nn.Sequential(
                *self.convolution(channels, width, keep_size=True),
                *self.convolution(width, channels, keep_size=True),
            )
            return [Residual(body), self.pick(ACTIVATIONS)()], channels
        if kind == 2:
            return [Gate(channels, int(self.pick([4, 8, 16])))], channels
        if kind == 3:
            branch = nn.Sequential(*self.convolution(channels, width, keep_size=True))
            return [Concat(branch)], channels + width
        return self.convolution(channels, width), width


def random_network(seed: int) -> tuple[nn.Module, torch.Tensor]:
    """Return a pruned network in evaluation mode, and an input ``(batch, 3, height, width)``."""
    torch.manual_seed(seed)
    builder, channels = _Builder(seed), 3
    layers = []
    for _ in range(int(builder.rng.integers(2, 6))):
        more, channels = builder.image_layers(channels)
        layers += more
    if builder.flip(0.3):
        layers.append(nn.MaxPool2d(2, 1, padding=1) if builder.flip() else nn.AvgPool2d(2, 1))
    pooled = int(builder.pick([1, 2]))
    layers += [nn.AdaptiveAvgPool2d(pooled), nn.Flatten()]
    hidden = int(builder.pick([16, 33, 64]))
    layers += [nn.Linear(channels * pooled * pooled, hidden), builder.pick(ACTIVATIONS)()]
    if builder.flip(0.4):
        layers.append(nn.LayerNorm(hidden))
    layers.append(nn.Linear(hidden, int(builder.pick([1, 10, 40]))))
    model = nn.Sequential(*layers).eval()
    with torch.no_grad():
        for layer in model.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                layer.weight *= torch.from_numpy(random_mask(builder, tuple(layer.weight.shape)))
    size = (int(builder.rng.integers(7, 20)), int(builder.rng.integers(7, 20)))
    return model, torch.randn(int(builder.pick([1, 1, 2, 5])), 3, *size)


def random_mask(drawn: Drawn, shape: tuple[int, ...]) -> np.ndarray:
    """Return 1 where a weight of ``shape`` stays, in a random pattern or none."""
    rng, density = drawn.rng, float(drawn.pick([0.1, 0.25, 0.5]))
    kind = int(rng.integers(7))
    features, taps = shape[0], shape[2:]
    columns = shape[1] * int(np.prod(taps, dtype=int))
    if kind == 0:
        kept = np.ones((features, columns), bool)
    elif kind == 1:
        kept = rng.random((features, columns)) < density
    elif kind == 2:
        bank = int(drawn.pick([4, 8, 16]))
        rank = rng.random((features, -(-columns // bank), bank)).argsort(-1).argsort(-1)
        kept = (rank < max(1, round(bank * density))).reshape(features, -1)[:, :columns]
    elif kind == 3:
        down, across = int(drawn.pick([1, 4, 16])), int(drawn.pick([4, 16]))
        blocks = rng.random((-(-features // down), -(-columns // across))) < density
        kept = blocks.repeat(down, 0).repeat(across, 1)[:features, :columns]
    elif kind == 4:
        kept = np.broadcast_to(rng.random((features, 1)) < 0.7, (features, columns))
    elif kind == 5:
        # Whole input channels.
        channels = rng.random((1, shape[1], 1)) < 0.7
        kept = np.broadcast_to(channels, (features, shape[1], columns // shape[1]))
    else:
        kept = np.zeros((features, columns), bool)
        kept[:, rng.permutation(columns)[: max(1, int(columns * density))]] = True
    if kind in (1, 2, 3) and drawn.flip() and len(taps) == 2:
        # Banks and blocks along channels of a tap instead of PyTorch's order.
        moved = kept.reshape(features, *taps, shape[1])
        return np.ascontiguousarray(moved.transpose(0, 3, 1, 2)).astype(np.float32)
    return np.ascontiguousarray(kept).reshape(shape).astype(np.float32)
