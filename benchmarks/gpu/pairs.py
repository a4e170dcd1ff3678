"""Depthwise + pointwise blocks of the mobile networks: one kernel against two calls of cuDNN."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional
from tvm.target import Target

from benchmarks.gpu import device, layers, prepare
from benchmarks.gpu.cases import BATCHES, window
from benchmarks.gpu.prepare import load
from benchmarks.gpu.timing import Timer
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.passes.lower.fuse_depthwise import fused
from tvm_sparse.selection.cuda import options
from tvm_sparse.selection.cuda.option import Option
from tvm_sparse.selection.cuda.separable_options import separable

BLOCKS = {
    "MobileNet-V2 112x112x32 to 16": ((112, 32, 3, 1), 16),
    "MobileNet-V2 56x56x144 to 24": ((56, 144, 3, 1), 24),
    "MobileNet-V2 28x28x192 to 32": ((28, 192, 3, 1), 32),
    "MobileNet-V2 28x28x192/2 to 64": ((28, 192, 3, 2), 64),
    "MobileNet-V2 14x14x576 to 96": ((14, 576, 3, 1), 96),
    "MobileNet-V2 7x7x960 to 160": ((7, 960, 3, 1), 160),
}
"""Block -> (input extent, channels, kernel, stride), and the features behind."""

PARTS = ("fused", "depthwise", "pointwise")
"""Kernels of a block: both layers in one, and each alone."""


@dataclass(frozen=True)
class Pair:
    """A depthwise layer and the 1x1 layer behind it, without activation: two calls of cuDNN."""

    layer: str
    first: Contraction
    features: int

    @property
    def name(self) -> str:
        """Name of the case, a key of the results."""
        return f"{self.layer}, {self.first.dtype}, N={self.first.lead[0]}, pair"

    @property
    def second(self) -> Contraction:
        """The 1x1 layer."""
        return pointwise_behind(self.first, self.features)

    def weights(self) -> list[np.ndarray]:
        """Return the taps and the 1x1 weight; they do not depend on the batch."""
        rng = np.random.default_rng(zlib.crc32(self.layer.encode()))
        shapes = [c.matrix_shape for c in (self.first, self.second)]
        values = [rng.standard_normal(s, dtype=np.float32) * s[1] ** -0.5 for s in shapes]
        return [v.astype(self.first.dtype) for v in values]


@dataclass(frozen=True)
class PairKernel:
    """One of :data:`PARTS` of a pair."""

    pair: Pair
    part: str

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"{self.pair.name}: {self.part}"

    def built_for(self, target: str) -> str:
        """Return ``target``."""
        return target

    def place(self, target: str) -> Path:
        """Return the directory of the built kernel; another definition has another one."""
        return prepare.place_of(f"{self.name} {self.pair} {target}")

    def option(self, target: Target) -> Option:
        """Return what is built."""
        first, second = self.pair.first, self.pair.second
        if self.part == "fused":
            return pair_option(first, second, target)
        return options.dense(first if self.part == "depthwise" else second, target)

    def chosen(self) -> contextlib.AbstractContextManager[Any]:
        """Return the compiler as it is."""
        return contextlib.nullcontext()

    def arrays(self, format: Any) -> list[np.ndarray]:
        """Return the packed weights; a fused kernel has a format for each of two."""
        taps, weight = self.pair.weights()
        if self.part == "fused":
            return [*format[0].encode(taps).values(), *format[1].encode(weight).values()]
        matrix = taps if self.part == "depthwise" else weight
        return list(format.encode(matrix).values())


def pointwise_behind(first: Contraction, features: int) -> Contraction:
    """Return the 1x1 layer that reads what ``first`` computes."""
    ones = (1, 1)
    return Contraction(
        first.lead,
        first.features,
        features,
        ones,
        ones,
        ones,
        padded=first.lead[1:],
        numerics=first.numerics,
    )


def pair_option(first: Contraction, second: Contraction, target: Target) -> Option:
    """Return the single kernel of a pair, whether or not it is modelled faster than two."""
    found = separable(first, second, target)
    if isinstance(found, str):
        raise ValueError(found)

    def build() -> Any:
        return fused(found, lambda builder, x, operands: x)

    kernel = "depthwise + pointwise"
    return Option("separable", kernel, found.formats, 1.0, found.seconds, build, tile=found.shape)


def pairs() -> Iterator[Pair]:
    """Yield the blocks at each batch."""
    for layer, (shape, features) in BLOCKS.items():
        for batch in BATCHES:
            yield Pair(layer, window(shape, batch, "float16"), features)


def kernels() -> list[PairKernel]:
    """Return everything of ours that is measured."""
    return [PairKernel(pair, part) for pair in pairs() for part in PARTS]


def measure(pair: Pair, target: str, timer: Timer) -> dict[str, Any]:
    """Return times and records of our kernels and of cuDNN, all outputs verified.

    Raises
    ------
    ArithmeticError
        If an output of ours differs from the float64 reference by more than rounding allows.
    """
    on, generator = device.current(), torch.Generator().manual_seed(0)
    dtype = getattr(torch, pair.first.dtype)
    x = on.put(torch.randn(pair.first.input_shape, generator=generator).to(dtype))
    kernels = [_kernel(pair, w) for w in pair.weights()]
    expected = convolved(pair, x.double(), [k.double() for k in kernels])
    magnitude = convolved(pair, x.double().abs(), [k.double().abs() for k in kernels])
    programs, records = {}, {}
    ready = {}
    for part in PARTS:
        func, arrays, records[part] = load(PairKernel(pair, part), target, ptx=on.ptx)
        ready[part] = (func, arrays)

    def ours(part: str, image: torch.Tensor, c: Contraction) -> Any:
        return layers.ours(*ready[part], image, c.output_shape, records[part]["workspaces"])

    programs["ours fused"], _ = ours("fused", x, pair.second)
    first, between = ours("depthwise", x, pair.first)
    second, _ = ours("pointwise", between, pair.second)

    def two() -> torch.Tensor:
        first()
        return second()

    programs["ours two kernels"] = two
    torch.backends.cudnn.benchmark = True
    wide = [k.to(memory_format=torch.channels_last) for k in kernels]
    programs["cudnn nhwc"] = lambda: convolved(pair, x, wide)
    image = x.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1)
    programs["cudnn nchw"] = lambda: convolved(pair, image, kernels)
    terms = sum(c.matrix_shape[1] for c in (pair.first, pair.second))
    unit = layers.ROUNDING[dtype]
    # The tensor between is rounded once, the output once.
    allowed = magnitude * (terms * layers.SUMS + 2 * unit) + expected.abs() * unit + 1e-6
    errors = {}
    for name, program in programs.items():
        share = (program().double() - expected).abs() / allowed
        errors[name] = float(share.nan_to_num(nan=float("inf")).max())
        if name.startswith("ours") and errors[name] > 1:
            raise ArithmeticError(f"{pair.name}, {name}: {errors[name]:.3g} times the error")
    return {
        "case": pair.name,
        "rows": pair.first.lead[0],
        "pattern": "none",
        "sparsity": 0.0,
        "kernels": {"separable": records["fused"], "dense": records["depthwise"]},
        "libraries_dense": ["cudnn nchw", "cudnn nhwc"],
        "libraries_sparse": [],
        "missing": {},
        "errors": errors,
        **timer.row(programs),
    }


def convolved(pair: Pair, x: torch.Tensor, kernels: list[torch.Tensor]) -> torch.Tensor:
    """Return what both layers make of ``x`` (NHWC) by two convolutions."""
    c = pair.first
    options = {"stride": c.strides, "padding": c.borders, "dilation": c.dilation}
    between = functional.conv2d(x.permute(0, 3, 1, 2), kernels[0], groups=c.features, **options)
    return functional.conv2d(between, kernels[1]).permute(0, 2, 3, 1)


def _kernel(pair: Pair, weight: np.ndarray) -> torch.Tensor:
    """Return a matrix as the kernel of a convolution on the GPU."""
    taps = pair.first.taps if weight.shape == pair.first.matrix_shape else (1, 1)
    return device.current().put(torch.from_numpy(weight)).reshape(len(weight), -1, *taps)
