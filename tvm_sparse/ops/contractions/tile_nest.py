"""The nest of contractions whose sums are made a tile at a time, by an engine for tiles.

A call adds up all that a tile of rows and features needs, so that its sums leave the engine's
registers once. What is stored, and in which order, is all that operators differ in.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.base.numerics import bits_of
from tvm_sparse.machine.engine.cpu import Engine
from tvm_sparse.machine.engine.registry import tile_engine_of
from tvm_sparse.machine.registry import machine_of
from tvm_sparse.machine.tiles import TileUnit
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.contractions.contraction import Contraction, Extent
from tvm_sparse.ops.contractions.loop_nest import IMPORT
from tvm_sparse.ops.contractions.store import declare_offsets, store
from tvm_sparse.ops.emit import unravel, whole
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, flat, int64

TILES = "tiles"
"""The operator's mark."""

BEGUN = 5
"""Times that a call should take longer than one without steps."""

LEAST_ROWS = 3 / 4
"""Share of the most rows from which on a tile that divides all rows is better than a larger one."""


class TileWeights(Protocol):
    """Stored weights of a contraction, as an engine for tiles walks them."""

    @property
    def calls(self) -> int:
        """Calls that all features take for a tile of rows."""

    @property
    def blocks(self) -> int:
        """Vectors of features of a call."""

    @property
    def code(self) -> tuple[str, str]:
        """The name of the engine's function, and its text."""

    def declare(self, engine: Engine) -> None:
        """Emit the parameters of the weights."""

    @property
    def buffers(self) -> list[tirx.Buffer]:
        """The parameters, the values first."""

    def arguments(self, call: Any, rows: Any) -> list[Any]:
        """Return the function's arguments behind those of activations, for so many rows."""


def tile_nest(c: Contraction, weights: TileWeights, target: Target) -> tirx.PrimFunc:
    """Return ``f(X, *weights, Y)``, whose sums an engine for tiles makes.

    Signed bytes are multiplied as they are.
    """
    engine, rows = tile_engine_of(c.numerics, target), TileRows.of(c, unit_of(c, target))
    with IRBuilder() as builder, T.prim_func(is_private=True, s_tir=True):
        T.func_name("main")
        T.func_attr({FUSION: OUT_FUSABLE, "tirx.noalias": True})
        x = T.arg("X", T.Buffer(int64(c.input_shape), c.dtype))
        weights.declare(engine)
        offsets = declare_offsets(c, engine)
        y = T.arg("Y", T.Buffer(int64(c.output_shape), c.out_dtype))
        with T.sblock("root"):
            blocks = weights.calls * weights.blocks
            shape = int64((*rows.lead, rows.count * rows.size, blocks, LANES))
            sums = T.sblock_alloc_buffer(shape, c.numerics.accumulate)
            _contract(rows, weights, x, sums)

            def sum_of(lead: list[Any], out: Any) -> Any:
                return sums[(*rows.numbered(lead), out // LANES, out % LANES)]

            store(c, sum_of, offsets, y)
    return builder.get()


@dataclass(frozen=True)
class TileRows:
    """The rows of a contraction in tiles: ``count`` of ``size`` each, in each of ``lead``.

    Rows of a tile lie a constant pitch apart in the input. Those of a plain product are numbered
    through all leading axes, if these are static; else they are those of the last one.
    """

    contraction: Contraction
    lead: tuple[Extent, ...]
    extent: Extent
    size: int

    @classmethod
    def of(cls, c: Contraction, unit: TileUnit) -> TileRows:
        """Return the tiles of ``c``, equally large where the extent is static."""
        *lead, extent = c.lead
        static = all(isinstance(e, int) for e in c.lead)
        if static and (not c.taps or c.is_pointwise):
            lead, extent = [], math.prod(c.lead)
        size = unit.rows
        if isinstance(extent, int):
            even = range(unit.rows, int(unit.rows * LEAST_ROWS), -1)
            equal = -(-extent // -(-extent // unit.rows))
            size = next((n for n in even if extent % n == 0), equal)
        return cls(c, tuple(lead), extent, size)

    @property
    def count(self) -> Extent:
        """Tiles of the last axis."""
        if isinstance(self.extent, int):
            return -(-self.extent // self.size)
        return tirx.ceildiv(self.extent, tirx.const(self.size, "int64"))

    @property
    def _through_all(self) -> bool:
        """Whether rows are numbered through all leading axes."""
        return len(self.lead) < len(self.contraction.lead) - 1

    def numbered(self, lead: list[Any]) -> list[Any]:
        """Return where the sums of an output row are."""
        return [flat(lead, self.contraction.lead)] if self._through_all else list(lead)

    def first(self, index: list[Any], tile: Any) -> list[Any]:
        """Return the output row that is the first one of a tile."""
        row = tile * self.size
        return unravel(row, self.contraction.lead) if self._through_all else [*index, row]


def _contract(rows: TileRows, weights: TileWeights, x: tirx.Buffer, sums: tirx.Buffer) -> None:
    """Emit the block that makes a tile of sums, in one call."""
    c, blocks = rows.contraction, weights.blocks
    grid = int64((*rows.lead, rows.count, weights.calls))
    with T.grid(*grid) as axes, T.sblock("contract"):
        *lead, tile, call = T.axis.remap("S" * len(grid), axes)
        row, block = tile * rows.size, call * blocks
        T.reads(whole(x), *map(whole, weights.buffers))
        region = (slice(row, row + rows.size), slice(block, block + blocks), slice(0, LANES))
        T.writes(sums[(*lead, *region)])
        name, text = weights.code
        T.sblock_attr({OPERATOR: TILES, IMPORT: text})
        first = [*c.input_index(rows.first(lead, tile), [0] * len(c.taps)), 0]
        values = (
            T.address_of(sums[(*lead, row, block, 0)]),
            blocks * LANES * bits_of(c.numerics.accumulate) // 8,
            T.address_of(x[tuple(first)]),
            row_bytes(c) * (c.strides[-1] if c.taps else 1),
            *weights.arguments(call, tirx.min(tirx.const(rows.size, "int64"), rows.extent - row)),
        )
        T.evaluate(tirx.call_extern("void", name, *map(_argument, values)))


def unit_of(c: Contraction, target: Target) -> TileUnit:
    """Return the engine for tiles of such numbers, which the target has."""
    unit = machine_of(target).tile_unit(c.numerics.activation)
    assert unit is not None, "the operator's fits() says whether there is one"
    return unit


def plain(c: Contraction, target: Target) -> bool:
    """Whether the target multiplies tiles of such numbers, of windows that lie within the input."""
    unit = machine_of(target).tile_unit(c.numerics.activation)
    inside = not (c.depthwise or c.guarded or any(c.borders)) and c.groups == 1
    return unit is not None and inside and unit.step_of(row_bytes(c)) > 0 and len(c.taps) < 3


def pairs_worth(unit: TileUnit, steps: float) -> int:
    """Return the pairs of vectors of ``steps`` each whose call is worth its beginning."""
    return math.ceil(BEGUN * unit.begin / max(steps, 1))


def most_blocks(c: Contraction, unit: TileUnit) -> int:
    """Return the most vectors of a call, whose sums stay in the first cache."""
    return max(1, unit.sums // (TileRows.of(c, unit).size * LANES))


def window_pitches(c: Contraction) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return, for the taps of both spatial axes, how many there are and their pitch in bytes."""
    pitch = row_bytes(c)
    pitches: list[Any] = []
    for extent, dilation in zip(reversed(c.padded), reversed(c.dilation), strict=True):
        pitches.insert(0, pitch * dilation)
        pitch *= extent
    taps = [*zip(c.taps, pitches, strict=True)]
    outer, inner = ([(1, 0)] * 2 + taps)[-2:]
    return outer, inner


def row_bytes(c: Contraction) -> int:
    """Return the bytes of a row of the input."""
    return c.columns * bits_of(c.numerics.activation) // 8


def _argument(value: Any) -> Any:
    """Return an address as it is, a number as an int32: TVM would narrow some of int64."""
    if isinstance(value, int):
        return tirx.const(value, "int32")
    is_number = str(getattr(value.ty, "dtype", "")) == "int64"
    return tirx.Cast("int32", value) if is_number else value
