"""The layers of the zoo that multiply no weights, five shapes of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.layer_modules import Bag, Case, Shape, functions, tables


def others() -> Iterator[Case]:
    """Yield the layers that multiply no weight matrix."""
    plane, line = (1, 64, 56, 56), (1, 64, 1000)
    planes = (plane, (1, 256, 14, 14), (1, 32, 112, 112), (2, 30, 31, 33), (1, 512, 7, 7))
    lines = (line, (1, 512, 100), (4, 80, 300), (1, 1, 16000), (2, 31, 57))
    volumes = ((1, 32, 8, 28, 28), (1, 64, 4, 14, 14), (1, 16, 16, 32, 32), (1, 3, 7, 9, 11))
    volumes = (*volumes, (2, 8, 8, 16, 16))
    rows = ((128, 768), (1, 12, 128, 128), (64, 1000), (1, 50000), (31, 257))
    tokens = ((1, 128), (8, 64), (1, 1), (32, 50), (1, 512))
    sizes = ((8000, 256), (30000, 128), (1000, 768), (500, 32), (50000, 300))
    pairs = [(size, shape) for size, shape in zip(sizes, tokens, strict=True)]
    yield from tables("Embedding", nn.Embedding, *pairs)
    for mode in ("sum", "mean", "max"):
        bags = [((*size, mode), shape) for size, shape in pairs]
        yield from tables(f"EmbeddingBag, {mode}", Bag, *bags)
    found: dict[str, tuple[Callable[[torch.Tensor], Any], tuple[Shape, ...]]] = {
        "sort": (lambda x: torch.sort(x)[0], rows),
        "argsort, axis 0": (lambda x: torch.argsort(x, 0), rows),
        "topk": (lambda x: torch.topk(x, 5)[0], rows),
        "cumsum": (lambda x: torch.cumsum(x, -1), rows),
        "cumsum, axis 1": (lambda x: torch.cumsum(x, 1), planes),
        "gather": (lambda x: torch.gather(x, -1, x.long().abs() % x.shape[-1]), rows),
        "scatter": (lambda x: torch.scatter(x, -1, x.long().abs() % x.shape[-1], x + 1), rows),
        "index_select": (lambda x: x[:, [3, 1, 2, 0]], planes),
        "one_hot": (lambda x: F.one_hot((x.abs() * 9).long() % 10, 10), rows),
        "where": (lambda x: torch.where(x > 0, x, x * 0.1), planes),
        "flip, roll": (lambda x: torch.roll(x.flip(-1), 3, -2), planes),
        "transpose": (lambda x: x.transpose(1, -1) + 1, planes),
        "permute 4": (lambda x: x.permute(0, 2, 3, 1) * 2, planes),
        "pixel_shuffle": (lambda x: F.pixel_shuffle(x[:, :28], 2), planes),
        "pad, constant": (lambda x: F.pad(x, (1, 2, 3, 1)) + 1, planes),
        "pad, reflect": (lambda x: F.pad(x, (1, 2, 3, 1), "reflect"), planes),
        "pad, replicate": (lambda x: F.pad(x, (1, 2, 3, 1), "replicate"), planes),
        "pad, circular": (lambda x: F.pad(x, (1, 2, 3, 1), "circular"), planes),
        "unfold": (lambda x: F.unfold(x[:, :8], 3, padding=1), planes),
        "softmax, axis 1": (lambda x: x.softmax(1), planes),
        "softmax": (lambda x: x.softmax(-1), rows),
        "log_softmax": (lambda x: x.log_softmax(-1), rows),
        "logsumexp": (lambda x: x.logsumexp(-1), rows),
        "sum, all": (torch.sum, planes),
        "mean, planes": (lambda x: x.mean((2, 3)), planes),
        "mean, axis 1": (lambda x: x.mean(1), planes),
        "amax, axes 0 and 2": (lambda x: x.amax((0, 2)), planes),
        "amax, last": (lambda x: x.amax(-1), rows),
        "argmax, axis 1": (lambda x: x.argmax(1), planes),
        "argmax, last": (lambda x: x.argmax(-1), rows),
        "var, last": (lambda x: x.var(-1), rows),
        "norm, axis 1": (lambda x: F.normalize(x, dim=1), planes),
        "prod, last": (lambda x: x.prod(-1), rows),
        "GELU": (F.gelu, planes),
        "GLU": (lambda x: F.glu(x, 1), tuple(s for s in planes)),
        "RMSNorm": (lambda x: F.rms_norm(x, x.shape[-1:]), rows),
    }
    for name in ("nearest", "bilinear", "bicubic", "area"):
        found[f"resize x2, {name}"] = (
            lambda x, n=name: F.interpolate(x, scale_factor=2, mode=n),
            planes,
        )
        found[f"resize to 40x37, {name}"] = (
            lambda x, n=name: F.interpolate(x, size=(40, 37), mode=n),
            planes,
        )
    found["resize, linear"] = (
        lambda x: F.interpolate(x, scale_factor=2, mode="linear"),
        lines,
    )
    found["resize, trilinear"] = (
        lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"),
        volumes,
    )
    for n, shapes in ((1, lines), (2, planes), (3, volumes)):
        for name in ("max_pool", "avg_pool"):
            pool = getattr(F, f"{name}{n}d")
            found[f"{name}{n}d"] = (lambda x, p=pool: p(x, 3, 2, 1), shapes)
        adaptive = getattr(F, f"adaptive_avg_pool{n}d")
        found[f"adaptive_avg_pool{n}d"] = (lambda x, p=adaptive: p(x, 5), shapes)
        found[f"adaptive_max_pool{n}d"] = (
            lambda x, p=getattr(F, f"adaptive_max_pool{n}d"): p(x, 5),
            shapes,
        )
    found["lp_pool2d"] = (lambda x: F.lp_pool2d(x, 2, 3, 2), planes)
    for name, (function, shapes) in found.items():
        yield from functions(name, function, *shapes)
    norms: dict[str, Callable[[Shape], nn.Module]] = {
        "GroupNorm": lambda s: nn.GroupNorm(2 if s[1] % 32 else 32, s[1]),
        "InstanceNorm2d": lambda s: nn.InstanceNorm2d(s[1], affine=True),
        "LocalResponseNorm": lambda _: nn.LocalResponseNorm(5),
        "BatchNorm2d": lambda s: nn.BatchNorm2d(s[1]),
        "LayerNorm, planes": lambda s: nn.LayerNorm(s[1:]),
        "PReLU": lambda s: nn.PReLU(s[1]),
    }
    for name, norm in norms.items():
        for shape in planes:
            if name == "GroupNorm" and shape[1] % 2:
                continue
            yield Case(name, "x".join(map(str, shape)), lambda m=norm, s=shape: m(s), shape)
    for shape in rows:
        label = "x".join(map(str, shape))
        yield Case("LayerNorm", label, lambda s=shape: nn.LayerNorm(s[-1]), shape)
