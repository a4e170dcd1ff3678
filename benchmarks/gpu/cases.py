"""The layers, patterns and sparsities of the GPU benchmark."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from tvm_sparse.base.numerics import INTEGERS, Numerics, is_float
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.block import Block
from tvm_sparse.patterns.joint import Joint

SIZE = 8192
BANK = 32
SPARSITIES = (0.5, 0.75, 0.9, 0.95)
ROWS = (1, 8, 16, 32, 64, 256, 4096)
BATCHES = (1, 32, 256)
TAPS = 0.78
"""Share of taps that DEPrune removes from MobileNet-V2's depthwise layers."""

BYTE_SCALE = 40.0
"""Bytes of one standard deviation of a weight."""

Mask = Callable[[np.ndarray], np.ndarray]

MASKS: dict[str, Callable[[float], Mask]] = {
    "2:4": lambda s: Balanced(4, 2).project,
    "balanced": lambda s: Balanced(BANK, max(1, round(BANK * (1 - s)))).project,
    "block 32x32": lambda s: lambda scores: Block(32, 32).project(scores, s),
    "block 64x64": lambda s: lambda scores: Block(64, 64).project(scores, s),
    "taps": lambda s: lambda scores: _taps(scores, s),
    "none": lambda s: lambda scores: np.ones(scores.shape, bool),
    **{f"joint p={mix}": (lambda s, m=mix: _joint(s, m)) for mix in (0.25, 0.5, 0.75)},
}
"""Pattern -> (sparsity -> mask of scores)."""

FORMATS = {
    "2:4": "two_four",
    "balanced": "balanced",
    "block": "block",
    "joint": "joint",
    "taps": "depthwise_taps",
}
"""First word of a pattern -> the format that is made for it."""


@dataclass(frozen=True)
class Case:
    """One weight with one number of rows: what a line of the results is about."""

    layer: str
    contraction: Contraction
    pattern: str
    sparsity: float

    @property
    def name(self) -> str:
        """Name of the case, a key of the results."""
        zeros = "" if self.pattern == "none" else f" {self.sparsity:.0%}"
        c = self.contraction
        return f"{self.layer}, {c.dtype}, N={c.lead[0]}, {self.pattern}{zeros}"

    @property
    def format(self) -> str:
        """Format that is built: ``"dense"`` where nothing is pruned."""
        return FORMATS.get(self.pattern.split()[0], "dense")

    @property
    def seed(self) -> int:
        """Seed of the weight, the same for every number of rows."""
        return zlib.crc32(f"{self.layer} {self.pattern} {self.sparsity}".encode())

    def weight(self) -> np.ndarray:
        """Return the pruned matrix, in the contraction's dtype; depends on :attr:`seed` only."""
        c = self.contraction
        return _weight(self.seed, c.matrix_shape, c.dtype, self.pattern, self.sparsity)


@functools.lru_cache(maxsize=1)
def _weight(
    seed: int, shape: tuple[int, int], dtype: str, pattern: str, sparsity: float
) -> np.ndarray:
    """Return a pruned matrix; the last one is kept, since cases that share it follow each other."""
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    kept = MASKS[pattern](sparsity)(np.abs(values))
    if not is_float(dtype):
        return (np.clip(np.rint(values * BYTE_SCALE), -127, 127) * kept).astype("int8")
    scale = (kept.mean() * kept.shape[1]) ** -0.5
    return (values * kept * np.float32(scale)).astype(dtype)


def small() -> Iterator[Case]:
    """Yield small layers of every operator, odd shapes among them: what is verified first."""
    for dtype in ("float32", "float16"):
        for rows in (1, 5, 100):
            c = Contraction((rows,), 1000, 333, numerics=Numerics.uniform(dtype))
            for pattern in ("none", "balanced", "block 32x32", "joint p=0.25"):
                yield Case("333x1000", c, pattern, 0.0 if pattern == "none" else 0.75)
            if dtype == "float16":
                yield Case("333x1000", c, "2:4", 0.5)
        for kernel, stride in ((3, 1), (5, 2)):
            c = window((28, 72, kernel, stride), 2, dtype)
            yield Case(f"depthwise {kernel}x{kernel}/{stride} 28x28x72", c, "none", 0.0)
            yield Case(f"depthwise {kernel}x{kernel}/{stride} 28x28x72", c, "taps", TAPS)

    for numerics in INTEGERS:
        for rows in (1, 5, 100):
            c = Contraction((rows,), 1000, 333, numerics=numerics)
            for pattern in ("none", "balanced", "joint p=0.25"):
                yield Case("333x1000", c, pattern, 0.0 if pattern == "none" else 0.75)


def grid() -> Iterator[Case]:
    """Yield 8192 x 8192 over sparsities and rows: dense, balanced and blocks."""
    patterns = [("none", 0.0), ("2:4", 0.5)]
    for sparsity in SPARSITIES:
        patterns += [(pattern, sparsity) for pattern in ("balanced", "block 32x32", "block 64x64")]
    for pattern, sparsity in patterns:
        for rows in ROWS:
            c = Contraction((rows,), SIZE, SIZE, numerics=Numerics.uniform("float16"))
            yield Case("8192x8192", c, pattern, sparsity)


def papers() -> Iterator[Case]:
    """Yield the shapes of the papers, pruned as there."""
    shapes = {
        "16384x8196": (16384, 8196, (1, 8), (0.5, 0.75, 0.875)),
        "VGG fc6": (4096, 25088, (1, 8), (0.92,)),
        "LSTM-PTB gates": (6000, 1500, (1, 8), (0.8,)),
        "CTC-TIMIT gates": (4096, 1024, (1, 8), (0.875,)),
    }
    for layer, (features, columns, batches, sparsities) in shapes.items():
        for dtype in ("float32", "float16"):
            for sparsity in (0.0, *sparsities):
                for rows in batches:
                    c = Contraction((rows,), columns, features, numerics=Numerics.uniform(dtype))
                    yield Case(layer, c, "balanced" if sparsity else "none", sparsity)
    for pattern in ("none", "balanced", "joint p=0.75", "joint p=0.5", "joint p=0.25"):
        for rows in (1, 64):
            c = Contraction((rows,), SIZE, SIZE, numerics=Numerics.uniform("float16"))
            yield Case("8192x8192 mixed", c, pattern, 0.0 if pattern == "none" else 0.75)


DEPTHWISE = {
    "MobileNet-V2 112x112x32": (112, 32, 3, 1),
    "MobileNet-V2 56x56x144": (56, 144, 3, 1),
    "MobileNet-V2 28x28x192/2": (28, 192, 3, 2),
    "MobileNet-V2 14x14x576": (14, 576, 3, 1),
    "MobileNet-V3 14x14x240": (14, 240, 5, 1),
    "EfficientNet-B0 28x28x240": (28, 240, 5, 1),
    "EfficientNet-B0 14x14x672": (14, 672, 5, 1),
    "EfficientNet-B0 7x7x1152": (7, 1152, 5, 1),
}
"""Layer -> input extent, channels, kernel, stride."""


def depthwise() -> Iterator[Case]:
    """Yield depthwise layers of the mobile networks, unpruned and with pruned taps."""
    for layer, shape in DEPTHWISE.items():
        for batch in BATCHES:
            c = window(shape, batch, "float16")
            yield Case(layer, c, "none", 0.0)
            yield Case(layer, c, "taps", TAPS)


CONVOLUTIONS = {
    "ResNet-50 224x224x3, 7x7/2": ((224, 3, 7, 2), 64),
    "ResNet-50 56x56x64": ((56, 64, 3, 1), 64),
    "ResNet-50 56x56x128/2": ((56, 128, 3, 2), 128),
    "ResNet-50 28x28x128": ((28, 128, 3, 1), 128),
    "ResNet-50 14x14x256": ((14, 256, 3, 1), 256),
    "ResNet-50 7x7x512": ((7, 512, 3, 1), 512),
    "ResNet-50 56x56x256, 1x1/2": ((56, 256, 1, 2), 512),
    "ResNet-50 14x14x1024, 1x1/2": ((14, 1024, 1, 2), 2048),
}
"""Layer -> input extent, channels, kernel and stride, and features."""


def convolutions() -> Iterator[Case]:
    """Yield dense convolutions of ResNet-50, which may ask cuDNN."""
    for layer, (shape, features) in CONVOLUTIONS.items():
        for batch in BATCHES[:2]:
            yield Case(layer, window(shape, batch, "float16", features), "none", 0.0)


QUADS = {
    "BERT-base 768 to 3072": (3072, 768),
    "BERT-base 3072 to 768": (768, 3072),
    "4096x4096": (4096, 4096),
    "Llama-2-7B 4096 to 11008": (11008, 4096),
    "8192x8192": (8192, 8192),
}
"""Layer -> features and columns."""


def two_four() -> Iterator[Case]:
    """Yield 2:4 layers of transformers with many rows, which may ask cuSPARSELt."""
    for layer, (features, columns) in QUADS.items():
        for rows in (256, 512, 1024, 4096):
            c = Contraction((rows,), columns, features, numerics=Numerics.uniform("float16"))
            yield Case(layer, c, "2:4", 0.5)


BYTES = {
    "BERT-base 768 to 3072": (3072, 768),
    "BERT-base 3072 to 768": (768, 3072),
    "8192x8192": (8192, 8192),
}
"""Layer -> features and columns."""


def byte_layers() -> Iterator[Case]:
    """Yield layers of bytes, and the same in fp16: dense, and banks that are packed."""
    signed = next(n for n in INTEGERS if n.activation == "int8")
    for layer, (features, columns) in BYTES.items():
        for pattern, sparsity in (("none", 0.0), ("balanced", 0.75)):
            for numerics in (signed, Numerics.uniform("float16")):
                for rows in (1, 16, 64, 256, 4096):
                    c = Contraction((rows,), columns, features, numerics=numerics)
                    yield Case(layer, c, pattern, sparsity)


def window(
    shape: tuple[int, int, int, int], batch: int, dtype: str, features: int = 0
) -> Contraction:
    """Return a convolution that pads its input; ``shape`` as in :data:`DEPTHWISE`.

    It is depthwise if it has no ``features`` of its own.
    """
    extent, channels, kernel, stride = shape
    out = -(-extent // stride)
    return Contraction(
        lead=(batch, out, out),
        columns=channels,
        features=features or channels,
        taps=(kernel, kernel),
        strides=(stride, stride),
        dilation=(1, 1),
        padded=(extent, extent),
        numerics=Numerics.uniform(dtype),
        borders=(kernel // 2, kernel // 2),
        depthwise=not features,
    )


def _taps(scores: np.ndarray, sparsity: float) -> np.ndarray:
    """Return the mask that keeps the same number of the largest taps in each channel."""
    keep = max(1, round(scores.shape[1] * (1 - sparsity)))
    return scores.argsort(1).argsort(1) >= scores.shape[1] - keep


def _joint(sparsity: float, mix: float) -> Mask:
    """Return a fine mask AND a coarse one of 64 x 64 blocks, with random coarse scores."""
    fine, coarse = Joint.targets(sparsity, mix)

    def mask(scores: np.ndarray) -> np.ndarray:
        other = np.random.default_rng(1).random(scores.shape, dtype=np.float32)
        kept = Balanced(BANK, max(1, round(BANK * (1 - fine)))).project(scores)
        both: np.ndarray = kept & Block(64, 64).project(other, coarse)
        return both

    return mask
