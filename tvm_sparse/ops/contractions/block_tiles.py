"""Block-sparse linear layer and convolution whose sums are made a tile at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.kept_steps import KeptStepsFormat
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.registry import tile_engine_of
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
from tvm_sparse.patterns.scan import Scan

BLOCKS = (1, 2)
"""Blocks of 16 features that may share steps."""


def block_tiles(c: Contraction, format: KeptStepsFormat, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, values, places, starts, Y)``: only steps that hold a nonzero are multiplied.

    ``Y[..., o] = sum_tc X[..., t, c] * W[o, t, c]``. A step is as long as the format's runs; a row
    of the format's groups is one or two vectors of features.
    """
    return tile_nest(c, KeptSteps(c, format, unit_of(c, target)), target)


def kept_steps_format(
    c: Contraction, scan: Scan, target: Target, step: int, blocks: int
) -> KeptStepsFormat:
    """Return the format of a weight for steps of ``step`` bytes that ``blocks`` share."""
    size = bits_of(c.numerics.activation) // 8
    format = CompressedRowsFormat.of(
        scan.weight,
        group=blocks * LANES,
        run=step // size,
        tile_rows=blocks * LANES,
        tile_cols=scan.cols,
        depth=tile_engine_of(c.numerics, target).depth,
    )
    wide = c.taps[-1] if c.taps else 1
    pitch = row_bytes(c) * (c.dilation[-1] if c.taps else 1)
    return KeptStepsFormat(format, c.columns, wide, pitch, size)


@dataclass
class KeptSteps:
    """Of each slot, one or two blocks, the steps that hold a nonzero."""

    contraction: Contraction
    format: KeptStepsFormat
    unit: TileUnit
    _values: Any = field(init=False, default=None)
    _places: Any = field(init=False, default=None)
    _starts: Any = field(init=False, default=None)

    @property
    def calls(self) -> int:
        """Calls that all features take for a tile of rows."""
        return self.format.blocks.slots // self._slots

    @property
    def blocks(self) -> int:
        """Blocks of features of a call."""
        return self._slots * self._shared

    @property
    def code(self) -> tuple[str, str]:
        """The function that adds up the steps of slots."""
        runs = self.format.blocks
        return self.unit.kept(runs.run * self.format.size, self._shared)

    @property
    def buffers(self) -> list[tirx.Buffer]:
        """Values, places and starts."""
        return [self._values, self._places, self._starts]

    def declare(self, engine: Engine) -> None:
        """Emit the parameters ``values``, ``places`` and ``starts``."""
        f = self.format.blocks
        shape = int64((f.entries, f.run // f.depth, f.group * f.depth))
        self._values = T.arg("V", T.Buffer(shape, engine.held))
        self._places = T.arg("C", T.Buffer(int64((f.entries, 2)), "int32"))
        self._starts = T.arg("S", T.Buffer(int64((f.slots + 1,)), "int32"))

    def arguments(self, call: Any, rows: Any) -> list[Any]:
        """Return the weights, where they are, the slots of a call, and its size."""
        (_, of_outer), _ = window_pitches(self.contraction)
        return [
            T.address_of(self._values[0, 0, 0]),
            T.address_of(self._places[0, 0]),
            T.address_of(self._starts[call * self._slots]),
            rows,
            self._slots,
            of_outer,
        ]

    @property
    def _shared(self) -> int:
        """Blocks of a slot."""
        return self.format.blocks.group // LANES

    @property
    def _slots(self) -> int:
        """Slots of a call: so many that beginning it takes little."""
        f = self.format.blocks
        pairs = pairs_worth(self.unit, f.entries / f.slots)
        held = most_blocks(self.contraction, self.unit) // self._shared
        most = max(1, min(pairs * 2 // self._shared, held))
        return max(d for d in range(1, most + 1) if f.slots % d == 0)
