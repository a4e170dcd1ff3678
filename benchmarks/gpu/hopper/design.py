"""What a kernel is: its design, how a thread block is shaped, and how much memory that takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

FEATURES = 64
"""Features of a warpgroup's products: ``wgmma`` has no other height."""

MEMORY = 232448
"""Bytes of shared memory that a thread block of Hopper may take."""

LEFT_OUT = ("kNothing", "kDecoding", "kProducts", "kActivations")
"""What an ablation may leave out, to learn what binds; its results are wrong."""


class Shape(NamedTuple):
    """A configuration, which a search by hand found for each count of rows.

    ``rows`` of activations lie in a tile of ``groups`` x 64 features, ``parts`` thread blocks share
    its columns, and ``blocks`` are resident on an SM at once.
    """

    groups: int
    rows: int
    stages: int
    parts: int = 1
    blocks: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block: warpgroups that multiply, and a warp that copies."""
        return self.groups * 128 + 32

    @property
    def features(self) -> int:
        """Features of a tile."""
        return self.groups * FEATURES


@dataclass(frozen=True)
class Design:
    """A way to hold and multiply weights; ``keep`` of 32 columns where a kernel depends on it."""

    name: str
    keep: int = 0

    @property
    def columns(self) -> int:
        """Columns of a step."""
        return 128 if self.name == "two_four" else 64

    def cpp(self, shape: str) -> str:
        """Return the design as a C++ type, for a type that is a shape."""
        kind = {"tiles": "Tiles", "pairs": "Pairs", "scatter": "Scatter", "two_four": "TwoFour"}
        return f"{kind[self.name]}<{shape}{f', {self.keep}' if self.keep else ''}>"

    def piece_bytes(self, shape: Shape) -> int:
        """Return the bytes of packed weights that a step copies."""
        group = {
            "tiles": 8192,
            "pairs": 4 * (64 + 128 * self.keep),
            "scatter": 256 * self.keep + 128 * (8 if self.keep == 8 else 4),
            "two_four": 8192 + 1024,
        }
        return shape.groups * group[self.name]

    def shared_bytes(self, shape: Shape) -> int:
        """Return the shared memory of a thread block: ring, scratch, barriers, alignment."""
        stage = -(-self.piece_bytes(shape) // 1024) * 1024 + self.columns * 2 * shape.rows
        scratch = 2 * shape.groups * 8192 if self.name == "scatter" else 0
        return shape.stages * stage + scratch + 16 * shape.stages + 1024
