"""Pruned weights, made from seeds and packed for a design."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from benchmarks.gpu.hopper import layouts
from benchmarks.gpu.hopper.design import Design


@dataclass(frozen=True)
class Weight:
    """A weight ``[M, K]`` in fp16, as it is and packed.

    ``column_tiles`` say which columns each piece has, or None: all in order. ``counts`` are the
    pieces of each tile of features.
    """

    dense: torch.Tensor
    packed: torch.Tensor
    column_tiles: torch.Tensor | None
    counts: list[int]


def make(
    design: Design,
    features: int,
    shape: tuple[int, int],
    generator: torch.Generator,
    *,
    zeros: float = 0.0,
    integers: bool = False,
) -> Weight:
    """Return a weight of ``shape`` for tiles of ``features``; ``zeros``: of blocks, by design.

    ``integers`` from -2 to 2 are multiplied exactly; others are scaled to outputs near 1.
    """
    m, k = shape
    if design.name == "tiles":
        return _blocks(_values(shape, k * (1 - zeros), generator, integers), features, zeros)
    bank = 4 if design.name == "two_four" else layouts.BANK
    keep = 2 if design.name == "two_four" else design.keep
    drawn = torch.rand(m, k // bank, bank, device=generator.device, generator=generator)
    places = drawn.topk(keep, dim=-1).indices.sort(-1).values
    values = _values((m, k // bank, keep), k * keep / bank, generator, integers)
    packed = getattr(layouts, design.name)(places, values, features)
    return Weight(
        layouts.dense(places, values, bank), packed, None, [packed.shape[1]] * len(packed)
    )


def _values(
    shape: tuple[int, ...], kept: float, generator: torch.Generator, integers: bool
) -> torch.Tensor:
    on = generator.device
    if integers:
        return torch.randint(-2, 3, shape, device=on, generator=generator).half()
    return (torch.randn(shape, device=on, generator=generator) * kept**-0.5).half()


def _blocks(weight: torch.Tensor, features: int, zeros: float) -> Weight:
    """Keep blocks of ``features`` x 64 anywhere, as pruning by magnitude does."""
    m, k = weight.shape
    rows, columns = m // features, k // 64
    count = round(rows * columns * (1 - zeros))
    kept = torch.zeros(rows * columns, dtype=torch.bool, device=weight.device)
    # On the CPU, so that a weight is the same wherever it is made.
    order = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(7))
    kept[order[:count].to(weight.device)] = True
    kept = kept.reshape(rows, columns)
    weight = weight * kept.repeat_interleave(features, 0).repeat_interleave(64, 1)
    packed = layouts.tiles(weight, features)[kept]
    tiles = kept.nonzero()[:, 1].int() if zeros else None
    return Weight(weight, packed.contiguous(), tiles, kept.sum(1).tolist())
