"""What operators of a network take that are no sparse layer: ours against PyTorch, one by one.

A network is as fast as its slowest operator: one without a schedule of its own shows here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

import tvm_sparse as ts
import tvm_sparse_runtime as rt
from benchmarks.cases.layer_modules import Apply, First
from benchmarks.gpu import device, prepare
from benchmarks.gpu.models import CODE, TOLERANCE
from benchmarks.gpu.timing import Timer


class RootMeanSquareNorm(nn.Module):
    """The norm of Llama."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Divide rows by their root mean square, in fp32."""
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x) * self.scale


class Experts(nn.Module):
    """A product with a matrix for each item of the batch."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count, width, width) * width**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Multiply."""
        return x @ self.weight


def attention(x: torch.Tensor, *, heads: int, shared: int = 1, causal: bool = False) -> Any:
    """Attention of a tensor with itself; so many ``heads``, of which some share keys and values."""
    batch, length, width = x.shape
    q = x.reshape(batch, length, heads, width // heads).transpose(1, 2)
    k = q[:, :: max(1, shared)].repeat_interleave(shared, 1)
    return F.scaled_dot_product_attention(q, k, k, is_causal=causal)


def _channels_last_norm(width: int) -> nn.Module:
    first, last = Apply(lambda x: x.permute(0, 2, 3, 1)), Apply(lambda x: x.permute(0, 3, 1, 2))
    return nn.Sequential(first, nn.LayerNorm(width), last)


IMAGE, TOKENS = (8, 64, 56, 56), (8, 512, 768)

CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "3x3, groups of 4": (lambda: nn.Conv2d(128, 128, 3, 1, 1, groups=32), (8, 128, 56, 56)),
    "first 7x7": (lambda: nn.Conv2d(3, 64, 7, 2, 3), (8, 3, 224, 224)),
    "convolution of a line": (lambda: nn.Conv1d(256, 256, 3, 1, 1), (8, 256, 1000)),
    "depthwise, a line": (lambda: nn.Conv1d(256, 256, 31, 1, 15, groups=256), (8, 256, 1000)),
    "convolution of a volume": (lambda: nn.Conv3d(32, 64, 3, 1, 1), (2, 32, 16, 32, 32)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(128, 64, 4, 2, 1), (8, 128, 32, 32)),
    "depthwise 7x7": (lambda: nn.Conv2d(96, 96, 7, 1, 3, groups=96), (8, 96, 56, 56)),
    "group norm": (lambda: nn.GroupNorm(32, 256), (8, 256, 64, 64)),
    "instance norm": (lambda: nn.InstanceNorm2d(64), IMAGE),
    "layer norm of channels": (lambda: _channels_last_norm(64), IMAGE),
    "layer norm": (lambda: nn.LayerNorm(768), TOKENS),
    "root mean square norm": (lambda: RootMeanSquareNorm(768), TOKENS),
    "bilinear x 2": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
    "nearest x 2": (lambda: nn.Upsample(scale_factor=2), IMAGE),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), (8, 64, 112, 112)),
    "average pool": (lambda: nn.AvgPool2d(2), IMAGE),
    "adaptive pool": (lambda: nn.AdaptiveAvgPool2d(7), IMAGE),
    "mean of planes": (lambda: Apply(lambda x: x.mean((2, 3))), (32, 64, 112, 112)),
    "softmax of channels": (lambda: nn.Softmax(1), (8, 19, 256, 256)),
    "softmax of rows": (lambda: nn.Softmax(-1), (8, 12, 512, 512)),
    "log softmax, long": (lambda: nn.LogSoftmax(-1), (64, 32000)),
    "cumulative sum": (lambda: Apply(lambda x: x.cumsum(1)), TOKENS),
    "largest place": (lambda: Apply(lambda x: x.argmax(1)), (8, 19, 256, 256)),
    "five largest": (lambda: Apply(lambda x: x.topk(5).values), (64, 1000)),
    "GELU": (nn.GELU, TOKENS),
    "concatenation": (lambda: Apply(lambda x: torch.cat([x, x * 2, x], 1)), IMAGE),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), IMAGE),
    "reflection": (lambda: nn.ReflectionPad2d(3), IMAGE),
    "attention": (lambda: Apply(partial(attention, heads=12)), TOKENS),
    "attention, causal": (lambda: Apply(partial(attention, heads=12, causal=True)), TOKENS),
    "attention, shared heads": (lambda: Apply(partial(attention, heads=12, shared=4)), TOKENS),
    "experts": (lambda: Experts(8, 768), TOKENS),
    "LSTM": (lambda: First(nn.LSTM(256, 256, batch_first=True)), (8, 50, 256)),
}


def build(name: str, target: str) -> None:
    """Compile an operator."""
    model, x = made(name)
    library = ts.compile(model, (x,), target=target, config=ts.Config(measure=False))
    place(name).parent.mkdir(parents=True, exist_ok=True)
    library.export(place(name))


def made(name: str) -> tuple[nn.Module, torch.Tensor]:
    """Return an operator in half precision, and its input."""
    torch.manual_seed(0)
    make, shape = CASES[name]
    return make().eval().half(), torch.randn(shape).half()


def place(name: str) -> Path:
    """Return the directory of an operator's artifact."""
    file = f"operator_{list(CASES).index(name)}.tvms"
    return prepare.BUILT / prepare.code_version(*CODE) / file


@torch.inference_mode()
def rows(name: str, timer: Timer) -> Iterator[dict[str, Any]]:
    """Yield the times of an operator that is built, its output verified."""
    model, x = made(name)
    x = device.current().put(x)
    model = model.to(x.device)
    expected, library = model(x), rt.load(place(name))
    error = float((library(x) - expected).abs().max() / expected.abs().max())
    if not error <= TOLERANCE[x.dtype]:
        raise ArithmeticError(f"{name}: outputs differ by {error:.2g}")
    programs = {"torch eager": lambda: model(x), "ours": lambda: library(x)}
    yield {"case": name, "shape": list(x.shape), "error": error, **timer.row(programs)}
