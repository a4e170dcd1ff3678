"""Dense linear layer and convolution whose sums are made a tile at a time."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.formats.dense import DenseFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.tiles import TileUnit
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.tile_nest import (
    most_blocks,
    pairs_worth,
    row_bytes,
    tile_nest,
    unit_of,
    window_pitches,
)
from tvm_sparse.ops.marks import int64

LINE = 4
"""Blocks whose bytes fill a cache line."""


def tiles(c: Contraction, format: DenseFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, Y)``: ``Y[..., o] = sum_tc X[..., t, c] * W[o, t, c]``.

    As :func:`~tvm_sparse.ops.contractions.dense.dense`, whose weights it reads.
    """
    return tile_nest(c, DenseSteps(c, format, unit_of(c, target)), target)


@dataclass
class DenseSteps:
    """All steps of all blocks."""

    contraction: Contraction
    format: DenseFormat
    unit: TileUnit
    _values: Any = field(init=False, default=None)

    @property
    def calls(self) -> int:
        """Calls that all features take for a tile of rows."""
        return self.format.row_blocks // self.blocks

    @property
    def blocks(self) -> int:
        """Blocks of features of a call."""
        return blocks_of(self.contraction, self.unit)

    @property
    def code(self) -> tuple[str, str]:
        """The function that adds up steps side by side, in windows a pitch apart."""
        return self.unit.code(self._step)

    @property
    def buffers(self) -> list[tirx.Buffer]:
        """The values."""
        return [self._values]

    def declare(self, engine: Engine) -> None:
        """Emit the parameter ``values``."""
        f = self.format
        shape = int64((f.row_blocks, f.groups, f.lanes * f.depth))
        self._values = T.arg("V", T.Buffer(shape, engine.held))

    def arguments(self, call: Any, rows: Any) -> list[Any]:
        """Return the weights of a call, their pitch, its size, and the windows."""
        c, f = self.contraction, self.format
        outer, inner = window_pitches(c)
        return [
            T.address_of(self._values[call * self.blocks, 0, 0]),
            f.groups * f.lanes * f.depth * bits_of(c.numerics.weight) // 8,
            rows,
            self.blocks,
            *outer,
            *inner,
            row_bytes(c) // self._step,
        ]

    @property
    def _step(self) -> int:
        return self.unit.step_of(row_bytes(self.contraction))


def blocks_of(c: Contraction, unit: TileUnit) -> int:
    """Return the blocks of features of a call, which divide all.

    They are so many that beginning it takes little, and at least a cache line of bytes.
    """
    blocks = -(-c.features // LANES)
    most = min(max(2 * pairs_worth(unit, steps_of(c, unit)), LINE), most_blocks(c, unit))
    divisors = [d for d in range(1, most + 1) if blocks % d == 0]
    return max(divisors, key=lambda d: d // 2)


def steps_of(c: Contraction, unit: TileUnit) -> int:
    """Return the steps that a sum takes."""
    return math.prod(c.taps) * (row_bytes(c) // unit.step_of(row_bytes(c)))
