"""Random networks of what stands between pruned layers: norms, resizes, sorts, scans, scatters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

Step = Callable[[Tensor], Tensor]


class Steps(nn.Module):
    """Functions one after another, with the layers that some of them hold."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.steps = steps
        self.layers = nn.ModuleList(step for step in steps if isinstance(step, nn.Module))

    def forward(self, x: Tensor) -> Tensor:
        """Return what the last function returns."""
        for step in self.steps:
            x = step(x)
        return x


def _resize(rng: np.random.Generator, size: tuple[int, int]) -> Step:
    mode = str(rng.choice(["nearest", "nearest-exact", "bilinear", "bicubic", "area"]))
    target = tuple(int(rng.integers(max(1, n // 3), 2 * n + 2)) for n in size)
    options: dict = {}
    if mode in ("bilinear", "bicubic"):
        options["align_corners"] = bool(rng.integers(2))
        options["antialias"] = bool(rng.integers(2)) and not options["align_corners"]

    def resized(x: Tensor) -> Tensor:
        if options:  # a weight that is zero but for rounding spreads NaN, or does not
            x = x.nan_to_num()
        return F.interpolate(x, size=target, mode=mode, **options)

    return resized


def _norm(rng: np.random.Generator, channels: int) -> Step:
    kind = int(rng.integers(4))
    if kind == 0:
        return nn.InstanceNorm2d(channels, affine=bool(rng.integers(2)))
    if kind == 1:
        return nn.BatchNorm2d(channels, track_running_stats=False)
    if kind == 2:
        return nn.GroupNorm(int(rng.choice([d for d in (1, 2, 4) if channels % d == 0])), channels)
    return lambda x: F.layer_norm(x, x.shape[2:])


def _pool(rng: np.random.Generator) -> Step:
    kind, stride = int(rng.integers(4)), int(rng.integers(1, 3))
    if kind == 0:
        return lambda x: F.max_pool2d(x, 3, stride, 1, ceil_mode=True)
    if kind == 1:
        return lambda x: F.avg_pool2d(x, 3, stride, 1, count_include_pad=False)
    if kind == 2:
        return lambda x: F.adaptive_max_pool2d(x, (3, 2))
    return lambda x: F.lp_pool2d(x.abs(), 2, 2, stride)


def _order(rng: np.random.Generator) -> Step:
    axis, kind = int(rng.integers(1, 4)), int(rng.integers(5))
    if kind == 0:
        return lambda x: x.sort(axis, descending=True).values
    if kind == 1:
        return lambda x: x.topk((x.shape[axis] + 1) // 2, axis).values
    if kind == 2:
        return lambda x: x.cumsum(axis) / x.shape[axis]
    if kind == 3:
        return lambda x: x.clamp(-3, 3).logcumsumexp(axis)
    return lambda x: x.cummax(axis).values


def _moved(rng: np.random.Generator) -> Step:
    axis, kind = int(rng.integers(1, 4)), int(rng.integers(4))

    def scattered(x: Tensor) -> Tensor:
        places = torch.arange(x.shape[axis]) * 2 % x.shape[axis]
        return x.index_add(axis, places, x, alpha=0.5)

    steps: list[Step] = [
        lambda x: x.flip(axis).roll(1, axis),
        lambda x: F.pad(x, (1, 1, 0, 1), mode="reflect") if min(x.shape[2:]) > 1 else x,
        scattered,
        lambda x: torch.where(x > x.mean(axis, keepdim=True), x, -x),
    ]
    return steps[kind]


def _transposed(rng: np.random.Generator, channels: int) -> Step:
    stride, kernel = int(rng.integers(1, 4)), int(rng.integers(2, 5))
    layer = nn.ConvTranspose2d(channels, channels, kernel, stride, padding=kernel // 2)
    with torch.no_grad():
        layer.weight *= torch.rand(layer.weight.shape) < 0.5
    return layer


def random_glue(seed: int) -> tuple[nn.Module, Tensor]:
    """Return a network in evaluation mode and an input, at times far from zero or with NaN."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    channels = int(rng.choice([1, 4, 8, 20]))
    size = (int(rng.integers(4, 14)), int(rng.integers(4, 14)))
    makers = [
        *(lambda: _resize(rng, size), lambda: _norm(rng, channels), lambda: _pool(rng)),
        *(lambda: _order(rng), lambda: _moved(rng), lambda: _transposed(rng, channels)),
    ]
    x = torch.randn(int(rng.choice([1, 2, 3])), channels, *size)
    steps: list[Step] = []
    for _ in range(int(rng.integers(2, 6))):
        step = makers[int(rng.integers(len(makers)))]()
        shape = Steps([*steps, step]).eval()(x).shape
        if shape[1] == channels and min(shape) > (1 if steps else 0):
            steps.append(step)
    if rng.random() < 0.3:
        x = x + 1000 * float(rng.choice([-1, 1]))
    elif rng.random() < 0.3:
        x[torch.rand(x.shape) < 0.02] = torch.nan
    return Steps(steps).eval(), x
