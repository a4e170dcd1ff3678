"""Convolution on compressed rows that reads and writes planes: channels first, no transposition."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import tirx as T
from tvm.target import Target

from tvm_sparse.formats.shifted_rows import ShiftedRowsFormat
from tvm_sparse.machine.engine.registry import single_engine_of
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.contractions.lane_sums import lane_sums
from tvm_sparse.ops.contractions.packed_parts import PackedParts
from tvm_sparse.ops.contractions.packed_rows import PACK, ramp
from tvm_sparse.ops.contractions.plane import Plane
from tvm_sparse.ops.contractions.shifted_rows import ShiftedRows
from tvm_sparse.ops.emit import filled, lanes_from, unravel, whole
from tvm_sparse.ops.marks import flat, int64
from tvm_sparse.ops.transpose import LANES

UNROLLED = 4
"""Vectors of a row of pixels that are copied one after the other without a loop."""


def planes(
    contraction: Contraction, format: ShiftedRowsFormat, target: Target, vectors: int = 4
) -> tirx.PrimFunc:
    """Return ``f(X, values, places, starts[, groups], Y)`` of a convolution that is channels first.

    ``X`` is ``(*images, channels, *spatial)``, ``Y`` ``(*images, features, *spatial)``. As
    :func:`.shifted_rows`, but nothing is transposed: ``pack`` copies
    the planes of a channel between their borders, which ``contraction`` has not padded yet.
    """
    engine = single_engine_of(contraction.numerics, target)
    plane = plane_of(contraction, vectors)
    plan = _Plan(contraction, engine, vectors, format, plane, PackedParts(contraction))
    return lane_sums(plan, "int32")


def plane_of(c: Contraction, vectors: int) -> Plane:
    """Return the numbers of the pixels of a convolution that takes its own borders."""
    windows = zip(_spatial(c), c.taps, c.strides, c.dilation, strict=True)
    padded = tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in windows)
    return Plane(replace(c, padded=padded, borders=()), vectors, copied=False)


def planes_shapes(c: Contraction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of input and output, channels first, the input without borders."""
    images = c.lead[: len(c.lead) - len(c.taps)]
    return (*images, c.groups * c.columns, *c.padded), (*images, c.features, *_spatial(c))


def _spatial(c: Contraction) -> tuple[int, ...]:
    return c.lead[len(c.lead) - len(c.taps) :]


@dataclass(frozen=True)
class _Plan(ShiftedRows):
    """Positions of a plane, to and from tensors that are channels first."""

    operator = "planes"

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of the input: channels first, without borders."""
        return planes_shapes(self.c)[0]

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of the output: channels first."""
        return planes_shapes(self.c)[1]

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the copied input: groups, channels, positions of all planes."""
        return self.c.groups, self.c.columns, self.plane.step

    def read(self, packed: tirx.Buffer, row_tile: Any, first: Any) -> Any:
        """Return all activations of a group: where a tap reads is not known before."""
        region = (slice(0, extent) for extent in self.shape[1:])
        return packed[(self._group(row_tile), *region)]

    def place(self, row_tile: Any, across: Any, stored: Any, k: int, n: Any) -> list[Any]:
        """Return the index of the activations that column ``k`` of an entry meets at ``n``."""
        return [self._group(row_tile), 0, ramp(stored + k * self.plane.step + n)]

    def pack(self, x: tirx.Buffer, packed: tirx.Buffer) -> None:
        """Emit the block that copies a channel between its borders."""
        plane = self.plane
        with T.grid(*int64((*self.shape[:2], 1))) as axes, T.sblock(PACK):
            group, channel, all_of_it = T.axis.remap("SSS", axes)
            begin = all_of_it * plane.step  # a region without a variable cannot be computed at
            T.reads(whole(x))
            T.writes(packed[group, channel, begin : begin + plane.step])
            with T.serial(0, tirx.const(plane.step // LANES, "int64")) as vector:
                zero = filled(0, self.c.dtype, LANES)
                T.buffer_store(packed, zero, [group, channel, ramp(vector * LANES)])
            source = x, group * self.c.columns + channel
            for phase in range(math.prod(plane.phases)):
                self._copy(source, packed, (group, channel), phase)

    def results(self, lanes: tirx.Buffer, y: tirx.Buffer) -> None:
        """Emit the block ``store``, behind which element-wise steps fuse."""
        before = len(self.plane.images)
        with T.grid(*int64(self.output_shape)) as axes, T.sblock("store"):
            index = list(T.axis.remap("S" * len(self.output_shape), axes))
            position = self.plane.position([*index[:before], *index[before + 1 :]])
            T.reads(lanes[index[before], position])
            T.writes(y[tuple(index)])
            T.buffer_store(y, lanes[index[before], position], index)

    def _copy(self, source: Any, packed: tirx.Buffer, at: tuple[Any, Any], phase: int) -> None:
        """Emit the copy of the pixels of a phase that lie in the input."""
        plane, (x, channel), stride = self.plane, source, self.c.strides[-1]
        *rows, (first, count, pixel) = self._inside(phase)
        if not all(size for _, size, _ in rows) or not count:
            return
        with T.grid(*int64((*plane.images, *(size for _, size, _ in rows)))) as loops:
            index = [loops] if isinstance(loops, tirx.Var) else list(loops)
            image, moved = index[: len(plane.images)], index[len(plane.images) :]
            axes = list(zip(moved, rows, self.c.strides[:-1], strict=True))
            pixels = [start + y * s for y, (_, _, start), s in axes]
            begin = [*image, *(y + low for y, (low, _, _), _ in axes), first]
            home = flat(begin, (*plane.images, *plane.extents)) + phase * plane.length + LANES
            for step, lanes in _pieces(count):
                near = pixel + step * stride
                wide = (lanes - 1) * stride + 1
                row = x[(*image, channel, *pixels, lanes_from(near, wide))]
                value = _every(row, stride, lanes)
                T.buffer_store(packed, value, [*at, lanes_from(home + step, lanes)])

    def _inside(self, phase: int) -> list[tuple[int, int, int]]:
        """Return for each axis the first position, how many there are, and the first's pixel."""
        plane, c, found = self.plane, self.c, []
        phases = unravel(phase, plane.phases)
        borders = c.borders or (0,) * len(c.taps)
        axes = (plane.extents, phases, c.strides, plane.apart, borders, c.padded)
        for extent, own, stride, apart, border, inputs in zip(*axes, strict=True):
            begin = own * apart - border
            first = max(0, -(begin // stride))
            last = min(extent, -(-(inputs - begin) // stride))
            found.append((first, max(0, last - first), first * stride + begin))
        return found


def _pieces(count: int) -> Iterator[tuple[Any, int]]:
    """Yield the start and the lanes of pieces of a row, from inside of a loop if they are many."""
    vectors, rest = divmod(count, LANES)
    if vectors > UNROLLED:
        with T.serial(0, tirx.const(vectors, "int64")) as vector:
            yield vector * LANES, LANES
    else:
        yield from ((vector * LANES, LANES) for vector in range(vectors))
    if rest:
        yield vectors * LANES, rest


def _every(row: Any, stride: int, lanes: int) -> Any:
    """Return every ``stride``-th lane of ``row``."""
    if stride == 1 or lanes == 1:
        return row
    return tirx.Shuffle([row], [tirx.const(lane * stride, "int32") for lane in range(lanes)])
