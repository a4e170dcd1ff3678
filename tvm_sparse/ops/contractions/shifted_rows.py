"""Convolution on compressed rows whose lanes are neighbours in the plane: taps are shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.machine.engine.registry import single_engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.lane_sums import lane_sums
from tvm_sparse.ops.contractions.packed_parts import PackedParts
from tvm_sparse.ops.contractions.packed_rows import PACK, PackedRows, ramp
from tvm_sparse.ops.contractions.plane import Plane
from tvm_sparse.ops.emit import unravel, whole
from tvm_sparse.ops.marks import flat, int64
from tvm_sparse.ops.transpose import LANES, transpose_tile

STRIPS = "ts.strips"
"""Block annotation: the leading axis of the output that is cut into strips, and their lines."""


def shifted_rows(
    contraction: Contraction, format: ShiftedRowsFormat, target: Target, vectors: int = 4
) -> tirx.PrimFunc:
    """Return ``f(X, values, places, starts[, groups], Y)``.

    As :func:`.compressed_rows`, but each pixel is transposed once
    (``pack``: ``(group, channel, phase, position)``) instead of once for each tap: a tap is a shift
    of the vector that is loaded. An entry's place says channel, plane and shift at once. Lanes at
    positions without an output, one border's width in each row, are computed in vain.

    Pixels are numbered through a part of the convolution (:class:`.PackedParts`), which is packed
    on its own. ``format`` has the places of the parts' :meth:`~.PackedParts.plane`.
    """
    engine = single_engine_of(contraction.numerics, target)
    parts = packed_parts(contraction)
    plan = ShiftedRows(contraction, engine, vectors, format, parts.plane(vectors), parts)
    return lane_sums(plan, "int32")


def shifted_format(
    contraction: Contraction, inner: CompressedRowsFormat, vectors: int = 4
) -> ShiftedRowsFormat:
    """Return the format whose places are those that :func:`shifted_rows` packs pixels at."""
    parts = packed_parts(contraction)
    plane = parts.plane(vectors)
    return ShiftedRowsFormat(inner, plane.step, parts.places(plane))


def packed_parts(contraction: Contraction) -> PackedParts:
    """Return the parts of a convolution that has some.

    Raises
    ------
    ValueError
        Several of its axes are open.
    """
    parts = PackedParts.of(contraction)
    if parts is None:
        raise ValueError(f"distances of pixels are not constant in {contraction.lead}")
    return parts


@dataclass(frozen=True)
class ShiftedRows(PackedRows):
    """Output rows are positions of a plane; their input is packed once for all taps.

    Planes and tiles of a part follow those of the part before.
    """

    format: ShiftedRowsFormat
    plane: Plane
    parts: PackedParts
    operator: ClassVar[str] = "shifted_rows"

    @property
    def s(self) -> CompressedRowsFormat:
        """Format of the weight but for its places."""
        return self.format.inner

    @property
    def tiles(self) -> Any:
        """Tiles of positions, of all parts."""
        return math.prod(self.parts.counts) * self.plane.tiles

    @property
    def blocks(self) -> int:
        """Vectors of channels of a group."""
        return -(-self.c.columns // LANES)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents of the packed input: parts, groups, channels, planes with copies, positions."""
        channels = self.blocks * LANES
        return *self.parts.counts, self.c.groups, channels, self.plane.copies, self.plane.length

    def row(self, lead: list[Any]) -> Any:
        """Return the position of an output."""
        part, inside = self.parts.split(lead)
        first = flat(part, self.parts.counts) * self.plane.tiles * self.span
        return first + self.plane.position(inside)

    def read(self, packed: tirx.Buffer, row_tile: Any, first: Any) -> Any:
        """Return all activations of a group: where a tap reads is not known before."""
        *planes, length = (slice(0, extent) for extent in self.shape[-3:])
        written = slice(0, length.stop - LANES)  # as far as ``pack`` says that it writes
        return packed[(*self._part(first)[0], self._group(row_tile), *planes, written)]

    def _pack_few(self, x: tirx.Buffer, packed: tirx.Buffer, at: tuple[Any, ...]) -> None:
        """Emit what transposes 16 pixels of fewer channels, channel by channel."""
        part, group, phase, first = at
        inside = [self.plane.pixel(phase, first + lane) for lane in range(LANES)]
        pixels = [[T.bind(i) for i in self.parts.pixel(part, pixel)] for pixel in inside]
        with T.serial(0, tirx.const(self.c.columns, "int64")) as channel:
            values = [x[(*pixel, group * self.c.columns + channel)] for pixel in pixels]
            vector = T.bind(tirx.Shuffle(values, list(range(LANES))))
            self._store(packed, vector, (part, group, phase, first), channel)

    def _store(self, packed: tirx.Buffer, vector: Any, at: tuple[Any, ...], channel: Any) -> None:
        """Emit the stores of 16 pixels of a channel, one for each copy of the plane."""
        part, group, phase, first = at
        offsets = self.plane.offsets
        for copy, offset in enumerate(offsets):
            where = phase * len(offsets) + copy, ramp(first + LANES - offset)
            T.buffer_store(packed, vector, [*part, group, channel, *where])

    def place(self, row_tile: Any, across: Any, stored: Any, k: int, n: Any) -> list[Any]:
        """Return the index of the activations that column ``k`` of an entry meets at ``n``.

        It counts on through all planes of a group from the first one: they lie one after the other.
        """
        part, position = self._part(n)
        return [*part, self._group(row_tile), 0, 0, ramp(stored + k * self.plane.step + position)]

    def _part(self, n: Any) -> tuple[list[Any], Any]:
        """Return the index of the part of an output row, and the row's position there."""
        if not self.parts.counts:
            return [], n
        each = self.plane.tiles * self.span
        return unravel(n // each, self.parts.counts), n % each

    def _group(self, row_tile: Any) -> Any:
        return row_tile // (self.s.row_tiles // self.c.groups)

    def alloc(self, dtype: str) -> Any:
        """Emit the buffer of the transposed input."""
        return T.sblock_alloc_buffer(int64(self.shape), dtype)

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that transposes 16 pixels of a plane by 16 channels of a group."""
        c, plane, viewed = self.c, self.plane, self.engine.view(x)
        vectors = plane.length // LANES - 1
        extents = (*self.parts.counts, c.groups, math.prod(plane.phases), vectors, self.blocks)
        with T.grid(*int64(extents)) as axes, T.sblock(PACK):
            *part, group, phase, row, block = T.axis.remap("S" * len(extents), axes)
            first, column = row * LANES, block * LANES
            if c.columns % LANES:  # the last block ends with the group's channels
                column = tirx.min(column, tirx.const(c.columns - LANES, "int64"))
            if self.parts.strip:
                T.sblock_attr({STRIPS: [*self.parts.strip]})
            T.reads(whole(x))
            # The last block begins earlier; contract reads all, so the region need not say so.
            channels, copies = slice(block * LANES, block * LANES + LANES), len(plane.offsets)
            planes = slice(phase * copies, phase * copies + copies)
            T.writes(packed[(*part, group, channels, planes, slice(first, first + LANES))])
            if c.columns < LANES:
                self._pack_few(x, packed, (part, group, phase, first))
                return
            inside = [plane.pixel(phase, first + lane) for lane in range(LANES)]
            pixels = [self.parts.pixel(part, pixel) for pixel in inside]
            rows = [viewed[(*pixel, ramp(group * c.columns + column))] for pixel in pixels]
            for i, vector in enumerate(transpose_tile(rows)):
                self._store(packed, vector, (part, group, phase, first), column + i)
