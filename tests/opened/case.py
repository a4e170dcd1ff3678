"""A network with open axes, and what it is run on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

TILE = 16
"""Lanes of a register: tiles of most kernels are multiples of it, or divide it."""


@dataclass
class OpenCase:
    """A network whose inputs have named open extents, each from a least to a most."""

    model: nn.Module
    shapes: list[list[int | str]]
    limits: dict[str, tuple[int, int]]
    example: dict[str, int]
    exact: bool
    """Whether numbers are small integers, of which each sum is exact in any order."""
    steps: list[str] = field(default_factory=list)
    """The names of the layers, for whoever reads of a failure."""

    def dynamic(self) -> tuple[dict[int, Any], ...]:
        """Return the open axes of each input as ``torch.export`` takes them."""
        dims = {n: torch.export.Dim(n, min=a, max=b) for n, (a, b) in self.limits.items()}
        return tuple(
            {axis: dims[e] for axis, e in enumerate(shape) if isinstance(e, str)}
            for shape in self.shapes
        )

    def inputs(self, extents: dict[str, int], seed: int = 0) -> tuple[Tensor, ...]:
        """Return random inputs of such extents."""
        generator = torch.Generator().manual_seed(seed)
        found = []
        for shape in self.shapes:
            size = [extents[e] if isinstance(e, str) else e for e in shape]
            if self.exact:
                found.append(torch.randint(-4, 5, size, generator=generator).float())
            else:
                found.append(torch.randn(size, generator=generator))
        return tuple(found)

    def extents(self, rng: np.random.Generator) -> list[dict[str, int]]:
        """Return the extents to run at: the ends, those around a tile, a prime, in some order."""
        columns = {}
        for name, (least, most) in self.limits.items():
            wanted = [least, TILE - 1, TILE, TILE + 1, 2 * TILE - 3, most]
            inside = [
                e if least <= e <= most else int(rng.integers(least, most + 1)) for e in wanted
            ]
            columns[name] = [inside[0], *rng.permutation(inside[1:-1]).tolist(), inside[-1]]
        count = len(next(iter(columns.values())))
        return [{name: values[i] for name, values in columns.items()} for i in range(count)]


def smallest(model: nn.Module, make: Callable[[int], tuple[Tensor, ...]]) -> int | None:
    """Return the least extent from which on PyTorch runs ``model``, and gives something."""
    for extent in (1, 2, 3, 4, 5, 7, 9, 12):
        try:
            with torch.no_grad():
                found = model(*make(extent))
        except (RuntimeError, ValueError):
            continue
        if found.numel():
            return extent
    return None
