"""Convolution on compressed rows whose lanes are neighbours in the plane: taps are shifts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.compressed_rows import CompressedRowsFormat
from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.machine.engine.registry import single_engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.lane_sums import lane_sums
from tvm_sparse.ops.contractions.packed_rows import PACK, PackedRows, ramp
from tvm_sparse.ops.contractions.plane import Plane
from tvm_sparse.ops.emit import unravel, whole
from tvm_sparse.ops.marks import flat, int64
from tvm_sparse.ops.transpose import LANES, transpose_tile

GROUPS = "ts.shared_by"
"""Block annotation: so many row tiles of the weight read the same channels."""


def shifted_rows(
    contraction: Contraction, format: ShiftedRowsFormat, target: Target, vectors: int = 4
) -> tirx.PrimFunc:
    """Return ``f(X, values, places, starts[, groups], Y)``.

    As :func:`.compressed_rows`, but each pixel is transposed once
    (``pack``: ``(group, channel, phase, position)``) instead of once for each tap: a tap is a shift
    of the vector that is loaded. An entry's place says channel, plane and shift at once. Lanes at
    positions without an output, one border's width in each row, are computed in vain.

    Images are numbered as one plane, unless their count is open: then each is packed on its own.
    """
    engine = single_engine_of(contraction.numerics, target)
    plan = ShiftedRows(contraction, engine, vectors, format, shifted_plane(contraction, vectors))
    return lane_sums(plan, "int32")


def shifted_plane(contraction: Contraction, vectors: int) -> Plane:
    """Return the numbers of the pixels that are packed together."""
    lead = contraction.lead[len(apart(contraction)) :]
    return Plane(replace(contraction, lead=lead), vectors)


def apart(c: Contraction) -> tuple[Any, ...]:
    """Return the extents of the axes of images, each of which is packed on its own."""
    images = c.lead[: len(c.lead) - len(c.taps)]
    return () if all(isinstance(extent, int) for extent in images) else images


@dataclass(frozen=True)
class ShiftedRows(PackedRows):
    """Output rows are positions of a plane; their input is packed once for all taps.

    Where images lie :func:`apart`, planes and tiles of one follow those of the one before.
    """

    format: ShiftedRowsFormat
    plane: Plane
    operator: ClassVar[str] = "shifted_rows"

    @property
    def s(self) -> CompressedRowsFormat:
        """Format of the weight but for its places."""
        return self.format.inner

    @property
    def tiles(self) -> Any:
        """Tiles of positions, of all images."""
        return math.prod(self.apart) * self.plane.tiles

    @property
    def apart(self) -> tuple[Any, ...]:
        """Extents of the axes of images, each of which is packed on its own."""
        return apart(self.c)

    @property
    def blocks(self) -> int:
        """Vectors of channels of a group."""
        return -(-self.c.columns // LANES)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents of the packed input: images, groups, channels, planes with copies, positions."""
        channels = self.blocks * LANES
        return *self.apart, self.c.groups, channels, self.plane.copies, self.plane.length

    def row(self, lead: list[Any]) -> Any:
        """Return the position of an output."""
        images = len(self.apart)
        first = flat(lead[:images], self.apart) * self.plane.tiles * self.span
        return first + self.plane.position(lead[images:])

    def read(self, packed: tirx.Buffer, row_tile: Any, first: Any) -> Any:
        """Return all activations of a group: where a tap reads is not known before."""
        *planes, length = (slice(0, extent) for extent in self.shape[-3:])
        written = slice(0, length.stop - LANES)  # as far as ``pack`` says that it writes
        return packed[(*self._image(first)[0], self._group(row_tile), *planes, written)]

    def _pack_few(self, x: tirx.Buffer, packed: tirx.Buffer, at: tuple[Any, ...]) -> None:
        """Emit what transposes 16 pixels of fewer channels, value by value."""
        image, group, phase, first = at
        plane, copies = self.plane, len(self.plane.offsets)
        with T.grid(*int64((self.c.columns, LANES))) as (channel, lane):
            pixel = plane.pixel(phase, first + lane)
            value = x[(*image, *pixel, group * self.c.columns + channel)]
            for copy, offset in enumerate(plane.offsets):
                where = phase * copies + copy, first + lane + LANES - offset
                T.buffer_store(packed, value, [*image, group, channel, *where])

    def place(self, row_tile: Any, across: Any, stored: Any, k: int, n: Any) -> list[Any]:
        """Return the index of the activations that column ``k`` of an entry meets at ``n``.

        It counts on through all planes of a group from the first one: they lie one after the other.
        """
        image, position = self._image(n)
        return [*image, self._group(row_tile), 0, 0, ramp(stored + k * self.plane.step + position)]

    def _image(self, n: Any) -> tuple[list[Any], Any]:
        """Return the index of the image of an output row, and the row's position there."""
        if not self.apart:
            return [], n
        each = self.plane.tiles * self.span
        return unravel(n // each, self.apart), n % each

    def _group(self, row_tile: Any) -> Any:
        return row_tile // (self.s.row_tiles // self.c.groups)

    def alloc(self, dtype: str) -> Any:
        """Emit the buffer of the transposed input."""
        return T.sblock_alloc_buffer(int64(self.shape), dtype)

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that transposes 16 pixels of a plane by 16 channels of a group."""
        c, plane, viewed = self.c, self.plane, self.engine.view(x)
        vectors = plane.length // LANES - 1
        extents = (*self.apart, c.groups, math.prod(plane.phases), vectors, self.blocks)
        with T.grid(*int64(extents)) as axes, T.sblock(PACK):
            *image, group, phase, row, block = T.axis.remap("S" * len(extents), axes)
            first, column = row * LANES, block * LANES
            if c.columns % LANES:  # the last block ends with the group's channels
                column = tirx.min(column, tirx.const(c.columns - LANES, "int64"))
            T.reads(whole(x))
            # The last block begins earlier; contract reads all, so the region need not say so.
            channels, copies = slice(block * LANES, block * LANES + LANES), len(plane.offsets)
            planes = slice(phase * copies, phase * copies + copies)
            T.writes(packed[(*image, group, channels, planes, slice(first, first + LANES))])
            if c.columns < LANES:
                self._pack_few(x, packed, (image, group, phase, first))
                return
            pixels = [(*image, *plane.pixel(phase, first + lane)) for lane in range(LANES)]
            rows = [viewed[(*pixel, ramp(group * c.columns + column))] for pixel in pixels]
            for i, vector in enumerate(transpose_tile(rows)):
                for copy, offset in enumerate(plane.offsets):
                    at = phase * copies + copy, ramp(first + LANES - offset)
                    T.buffer_store(packed, vector, [*image, group, column + i, *at])
