"""The layers of the zoo that multiply no weights, five shapes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.cases.layer_modules import Bag, Case, Shape, functions, tables

PLANES: tuple[Shape, ...] = ((1, 64, 56, 56), (1, 256, 14, 14), (1, 32, 112, 112))
PLANES = (*PLANES, (2, 30, 31, 33), (1, 512, 7, 7))
LINES = ((1, 64, 1000), (1, 512, 100), (4, 80, 300), (1, 1, 16000), (2, 31, 57))
VOLUMES: tuple[Shape, ...] = ((1, 32, 8, 28, 28), (1, 64, 4, 14, 14), (1, 16, 16, 32, 32))
VOLUMES = (*VOLUMES, (1, 3, 7, 9, 11), (2, 8, 8, 16, 16))
ROWS = ((128, 768), (1, 12, 128, 128), (64, 1000), (1, 50000), (31, 257))
TOKENS = ((1, 128), (8, 64), (1, 1), (32, 50), (1, 512))
SIZES = ((8000, 256), (30000, 128), (1000, 768), (500, 32), (50000, 300))

Functions: TypeAlias = dict[str, tuple[Callable[[torch.Tensor], Any], tuple[Shape, ...]]]


def others() -> Iterator[Case]:
    """Yield the layers that multiply no weight matrix."""
    yield from _tables()
    for found in (_along_lines(), _moves(), _reductions(), _resizes(), _pools()):
        for name, (function, shapes) in found.items():
            yield from functions(name, function, *shapes)
    yield from _norms()


def _tables() -> Iterator[Case]:
    """Yield embeddings."""
    pairs = list(zip(SIZES, TOKENS, strict=True))
    yield from tables("Embedding", nn.Embedding, *pairs)
    for mode in ("sum", "mean", "max"):
        bags = [((*size, mode), shape) for size, shape in pairs]
        yield from tables(f"EmbeddingBag, {mode}", Bag, *bags)


def _along_lines() -> Functions:
    """Return what orders, adds up and picks along an axis."""
    return {
        "sort": (lambda x: torch.sort(x)[0], ROWS),
        "argsort, axis 0": (lambda x: torch.argsort(x, 0), ROWS),
        "topk": (lambda x: torch.topk(x, 5)[0], ROWS),
        "cumsum": (lambda x: torch.cumsum(x, -1), ROWS),
        "cumsum, axis 1": (lambda x: torch.cumsum(x, 1), PLANES),
        "gather": (lambda x: torch.gather(x, -1, x.long().abs() % x.shape[-1]), ROWS),
        "scatter": (lambda x: torch.scatter(x, -1, x.long().abs() % x.shape[-1], x + 1), ROWS),
        "index_select": (lambda x: x[:, [3, 1, 2, 0]], PLANES),
    }


def _moves() -> Functions:
    """Return what moves elements, or chooses among them.

    Results are contiguous: PyTorch would move nothing, and leave the order of axes to its strides.
    """
    return {
        "one_hot": (lambda x: F.one_hot((x.abs() * 9).long() % 10, 10), ROWS),
        "where": (lambda x: torch.where(x > 0, x, x * 0.1), PLANES),
        "flip, roll": (lambda x: torch.roll(x.flip(-1), 3, -2), PLANES),
        "transpose": (lambda x: (x.transpose(1, -1) + 1).contiguous(), PLANES),
        "permute 4": (lambda x: (x.permute(0, 2, 3, 1) * 2).contiguous(), PLANES),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x[:, :28], 2), PLANES),
        "pad, constant": (lambda x: F.pad(x, (1, 2, 3, 1)) + 1, PLANES),
        "pad, reflect": (lambda x: F.pad(x, (1, 2, 3, 1), "reflect"), PLANES),
        "pad, replicate": (lambda x: F.pad(x, (1, 2, 3, 1), "replicate"), PLANES),
        "pad, circular": (lambda x: F.pad(x, (1, 2, 3, 1), "circular"), PLANES),
        "unfold": (lambda x: F.unfold(x[:, :8], 3, padding=1), PLANES),
    }


def _reductions() -> Functions:
    """Return reductions, norms of rows and activations."""
    return {
        "softmax, axis 1": (lambda x: x.softmax(1), PLANES),
        "softmax": (lambda x: x.softmax(-1), ROWS),
        "log_softmax": (lambda x: x.log_softmax(-1), ROWS),
        "logsumexp": (lambda x: x.logsumexp(-1), ROWS),
        "sum, all": (torch.sum, PLANES),
        "mean, planes": (lambda x: x.mean((2, 3)), PLANES),
        "mean, axis 1": (lambda x: x.mean(1), PLANES),
        "amax, axes 0 and 2": (lambda x: x.amax((0, 2)), PLANES),
        "amax, last": (lambda x: x.amax(-1), ROWS),
        "argmax, axis 1": (lambda x: x.argmax(1), PLANES),
        "argmax, last": (lambda x: x.argmax(-1), ROWS),
        "var, last": (lambda x: x.var(-1), ROWS),
        "norm, axis 1": (lambda x: F.normalize(x, dim=1), PLANES),
        "prod, last": (lambda x: x.prod(-1), ROWS),
        "GELU": (F.gelu, PLANES),
        "GLU": (lambda x: F.glu(x, 1), tuple(s for s in PLANES)),
        "RMSNorm": (lambda x: F.rms_norm(x, x.shape[-1:]), ROWS),
    }


def _resizes() -> Functions:
    """Return resizing in all modes."""
    found: Functions = {}
    for name in ("nearest", "bilinear", "bicubic", "area"):
        found[f"resize x2, {name}"] = (
            lambda x, n=name: F.interpolate(x, scale_factor=2, mode=n),
            PLANES,
        )
        found[f"resize to 40x37, {name}"] = (
            lambda x, n=name: F.interpolate(x, size=(40, 37), mode=n),
            PLANES,
        )
    found["resize, linear"] = (
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
        LINES,
    )
    found["resize, trilinear"] = (
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
        VOLUMES,
    )
    return found


def _pools() -> Functions:
    """Return pooling."""
    found: Functions = {}
    for n, shapes in ((1, LINES), (2, PLANES), (3, VOLUMES)):
        for name in ("max_pool", "avg_pool"):
            pool = getattr(F, f"{name}{n}d")
            found[f"{name}{n}d"] = (lambda x, p=pool: p(x, 3, 2, 1), shapes)
        adaptive = getattr(F, f"adaptive_avg_pool{n}d")
        found[f"adaptive_avg_pool{n}d"] = (lambda x, p=adaptive: p(x, 5), shapes)
        found[f"adaptive_max_pool{n}d"] = (
            lambda x, p=getattr(F, f"adaptive_max_pool{n}d"): p(x, 5),
            shapes,
        )
    found["lp_pool2d"] = (lambda x: F.lp_pool2d(x, 2, 3, 2), PLANES)
    return found


def _norms() -> Iterator[Case]:
    """Yield norms."""
    norms: dict[str, Callable[[Shape], nn.Module]] = {
        "GroupNorm": lambda s: nn.GroupNorm(2 if s[1] % 32 else 32, s[1]),
        "InstanceNorm2d": lambda s: nn.InstanceNorm2d(s[1], affine=True),
        "LocalResponseNorm": lambda _: nn.LocalResponseNorm(5),
        "BatchNorm2d": lambda s: nn.BatchNorm2d(s[1]),
        "LayerNorm, planes": lambda s: nn.LayerNorm(s[1:]),
        "PReLU": lambda s: nn.PReLU(s[1]),
    }
    for name, norm in norms.items():
        for shape in PLANES:
            if name == "GroupNorm" and shape[1] % 2:
                continue
            yield Case(name, "x".join(map(str, shape)), lambda m=norm, s=shape: m(s), shape)
    for shape in ROWS:
        label = "x".join(map(str, shape))
        yield Case("LayerNorm", label, lambda s=shape: nn.LayerNorm(s[-1]), shape)
