"""The shapes, patterns and sparsities of the kernel benchmark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tvm_sparse.base.numerics import BFLOATS, FLOAT32, INTEGERS, Numerics
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.unstructured import Unstructured

LEVELS = (0.5, 0.75, 0.875, 0.9, 0.9375, 0.95)
NARROW_LEVELS = (0.75, 0.875, 0.9375)
BANK = 16
REGISTER_BITS = 512
DEPRUNE = 0.78
"""Share of taps that DEPrune removes from MobileNet-V2's depthwise layers."""

Masks = Callable[[np.ndarray, float], np.ndarray]


@dataclass(frozen=True)
class Case:
    """One layer. ``cold``: its weights come from memory, not from the cache."""

    name: str
    contraction: Contraction
    cold: bool = False
    main: bool = True

    @property
    def window(self) -> tuple[int, int, int, int]:
        """Return ``(input height, kernel, stride, padding)`` of a convolution."""
        c = self.contraction
        kernel, stride = c.taps[0], c.strides[0]
        padding = kernel // 2
        return c.padded[0] - 2 * padding, kernel, stride, padding


def linear(n: int, k: int, m: int, *, cold: bool = False, main: bool = True) -> Case:
    """Return a linear layer with ``n`` rows of input."""
    name = f"linear {n}x{k} to {m}" + (", cold" if cold else "")
    return Case(name, Contraction((n,), k, m), cold, main)


def conv(
    size: int, channels: int, features: int, kernel: int, *, stride: int = 1, main: bool = True
) -> Case:
    """Return a padded convolution of one image."""
    c = _window(size, channels, features, kernel, stride)
    name = f"conv {kernel}x{kernel}" + (f"/{stride}" if stride > 1 else "")
    return Case(f"{name} {size}x{size}, {channels} to {features}", c, main=main)


def depthwise(size: int, channels: int, kernel: int, *, stride: int = 1, main: bool = True) -> Case:
    """Return a padded depthwise convolution of one image."""
    c = _window(size, channels, channels, kernel, stride, depthwise=True)
    name = f"depthwise {kernel}x{kernel}" + (f"/{stride}" if stride > 1 else "")
    return Case(f"{name} {size}x{size}, {channels}", c, main=main)


def _window(
    size: int, channels: int, features: int, kernel: int, stride: int, *, depthwise: bool = False
) -> Contraction:
    padded = size + kernel // 2 * 2
    out = (padded - kernel) // stride + 1
    return Contraction(
        lead=(1, out, out),
        columns=channels,
        features=features,
        taps=(kernel, kernel),
        strides=(stride, stride),
        dilation=(1, 1),
        padded=(padded, padded),
        depthwise=depthwise,
    )


CASES = (
    linear(128, 1024, 1024),
    linear(128, 768, 3072),
    linear(128, 4096, 4096),
    linear(16, 1024, 1024),
    linear(4, 1024, 1024),
    linear(1, 1024, 1024, main=False),
    linear(512, 1024, 1024, main=False),
    linear(1, 4096, 4096, cold=True),
    conv(56, 64, 64, 3),
    conv(28, 128, 128, 3, stride=2, main=False),
    conv(14, 256, 256, 3),
    conv(7, 512, 512, 3, main=False),
    conv(56, 64, 256, 1),
    conv(14, 1024, 256, 1),
    depthwise(112, 32, 3),
    depthwise(56, 144, 3, stride=2, main=False),
    depthwise(28, 192, 3, main=False),
    depthwise(14, 576, 3),
    depthwise(28, 240, 5),
)


LINEARS = (
    linear(128, 1024, 1024),
    linear(128, 4096, 1024),
    linear(16, 1024, 1024),
    linear(4, 1024, 1024),
    linear(1, 1024, 1024),
    linear(1, 4096, 4096, cold=True),
)
WINDOWS = (
    conv(14, 256, 256, 3),
    conv(28, 128, 128, 3),
    conv(14, 1024, 256, 1),
    conv(28, 512, 128, 1),
    depthwise(28, 192, 3),
    depthwise(14, 576, 3),
)

NUMERICS: dict[str, tuple[Numerics, tuple[Case, ...]]] = {
    "float32": (FLOAT32, CASES),
    "int8": (INTEGERS[0], LINEARS + WINDOWS),
    # No library here takes a packed convolution of bfloat16 with sums of float32.
    "bfloat16": (BFLOATS[0], LINEARS),
}
"""Layers by the numbers that they are computed in."""


def cases(numerics: str) -> list[Case]:
    """Return the layers that are measured in ``numerics``, one of :data:`NUMERICS`."""
    found, chosen = NUMERICS[numerics]
    return [replace(case, contraction=replace(case.contraction, numerics=found)) for case in chosen]


def patterns(case: Case) -> dict[str, tuple[Masks, tuple[float, ...]]]:
    """Return the patterns that a case is measured with, each with its sparsities."""
    if case.contraction.depthwise:
        return {"taps of 16 channels": (shared_taps, (DEPRUNE,))}
    if case.contraction.numerics != FLOAT32:
        return _narrow_patterns(REGISTER_BITS // case.contraction.numerics.bits)
    banks = tuple(level for level in LEVELS if level * BANK % 1 == 0)
    found: dict[str, tuple[Masks, tuple[float, ...]]] = {
        "balanced": (balanced, banks),
        "balanced share=2": (shared_rows, banks),
        "block 16x16": (lambda w, s: Block(16, 16).project(w, s), LEVELS),
    }
    if not case.cold:
        found["block 4x4"] = (lambda w, s: Block(4, 4).project(w, s), LEVELS)
        found["unstructured"] = (lambda w, s: Unstructured().project(w, s), LEVELS)
    return found


def _narrow_patterns(bank: int) -> dict[str, tuple[Masks, tuple[float, ...]]]:
    """Return the patterns of numbers of which a register holds ``bank``."""
    return {
        "balanced": (
            lambda w, s: Balanced(bank, round(bank * (1 - s))).project(w),
            NARROW_LEVELS,
        ),
        "columns of 16 rows": (lambda w, s: Block(16, 1).project(w, s), NARROW_LEVELS),
        "block 16x4": (lambda w, s: Block(16, 4).project(w, s), NARROW_LEVELS),
    }


def balanced(scores: np.ndarray, sparsity: float) -> np.ndarray:
    """Return the mask that keeps the same number in each bank of 16 columns."""
    return Balanced(BANK, round(BANK * (1 - sparsity))).project(scores)


def shared_rows(scores: np.ndarray, sparsity: float) -> np.ndarray:
    """Return a balanced mask in which rows ``r`` and ``r + 16`` keep the same columns."""
    rows, cols = scores.shape
    pairs = scores.reshape(rows // 32, 2, 16, cols)
    mask = balanced(pairs.sum(1).reshape(-1, cols), sparsity)
    return np.broadcast_to(mask.reshape(-1, 1, 16, cols), pairs.shape).reshape(rows, cols)


def shared_taps(scores: np.ndarray, sparsity: float) -> np.ndarray:
    """Return a mask in which 16 neighbouring channels keep the same taps."""
    channels, taps = scores.shape
    sums = scores.reshape(-1, 16, taps).sum(1)
    kept = sums.argsort(1).argsort(1) >= round(taps * sparsity)
    return np.repeat(kept, 16, axis=0)[:channels]
