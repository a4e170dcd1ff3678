"""Axes in another order where the contiguous one moves: tiles move through registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import seen, unravel
from tvm_sparse.ops.tensors.borders import Borders
from tvm_sparse.ops.transpose import LANES, interleaved, transpose_tile

PARALLEL_POINTS = 1 << 13
"""Smallest tensor that is worth several threads."""

SHORTEST = 4
"""Extent of a contiguous axis from which on several of them are interleaved in registers."""

Step: TypeAlias = tuple[str, Sequence[int]]
"""A reshape and the shape behind it, or a transposition and its axes."""

_Part: TypeAlias = tuple[int, int]
"""Extent and stride of a part of an axis."""


@dataclass(frozen=True)
class Permutation:
    """A transposition of as few axes as possible.

    Parameters
    ----------
    shape
        Extents before it.
    axes
        For each axis behind it, which one it was.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    @staticmethod
    def of(shape: Sequence[int], axes: Sequence[int]) -> Permutation:
        """Return it without axes of extent one; neighbours that stay together are one axis."""
        runs: list[list[int]] = []
        for axis in (a for a in axes if shape[a] != 1):
            previous = runs[-1][-1] if runs else None
            between = range(axis) if previous is None else range(previous + 1, axis)
            if previous is not None and previous < axis and all(shape[a] == 1 for a in between):
                runs[-1].append(axis)
            else:
                runs.append([axis])
        order = sorted(range(len(runs)), key=lambda run: runs[run][0])
        extents = tuple(math.prod(shape[a] for a in runs[run]) for run in order)
        return Permutation(extents, tuple(order.index(run) for run in range(len(runs))))

    @staticmethod
    def of_steps(shape: Sequence[int], steps: Sequence[Step]) -> Permutation | None:
        """Return what several reshapes and transpositions (``permute_dims``) are.

        They are a reshape behind it and one before. ``None`` if a reshape mixes axes, or if a step
        is another one.
        """
        if 0 in shape:
            return None
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
        axes: list[list[_Part]] | None = [[part] for part in zip(shape, strides, strict=True)]
        for step, argument in steps:
            if axes is None or step not in ("reshape", "permute_dims"):
                return None
            if step == "permute_dims":
                axes = [axes[axis] for axis in argument]
            else:
                axes = _regrouped([part for axis in axes for part in axis], argument)
        parts = [part for axis in axes or [] for part in axis if part[0] > 1]
        before = sorted(parts, key=lambda part: -part[1])
        order = [before.index(part) for part in parts]
        return None if axes is None else Permutation.of([extent for extent, _ in before], order)

    @property
    def rows(self) -> tuple[int, ...]:
        """The last axes behind it that make rows of a vector or more, all behind the moved one."""
        first = len(self.axes) - 1
        moved = self.axes.index(first)
        while first > moved + 1 and math.prod(self.shape[a] for a in self.axes[first:]) < LANES:
            first -= 1
        return self.axes[first:]

    def is_fast(self) -> bool:
        """Whether it moves whole vectors, or nothing."""
        last = len(self.shape) - 1
        whole = last < 1 or (self.axes[-1] == last and self.shape[-1] >= LANES)
        return whole or self.turns_tiles() or self.interleaves()

    def turns_tiles(self) -> bool:
        """Whether the contiguous axis moves, and whole tiles of both contiguous axes exist."""
        rank = len(self.shape)
        moves = rank > 1 and self.axes[-1] != rank - 1
        count = math.prod(self.shape[axis] for axis in self.rows) if moves else 0
        return moves and min(self.shape[-1], count) >= LANES

    def interleaves(self) -> bool:
        """Whether a short axis comes behind the contiguous one, as the colours of an image do."""
        rank = len(self.shape)
        if rank < 2 or self.axes[-2] != rank - 1:
            return False
        return 1 < self.shape[self.axes[-1]] < LANES and self.shape[-1] >= SHORTEST


def permute(
    x: te.Tensor, plain: Permutation, extents: Sequence[Any], borders: Borders | None = None
) -> te.Tensor:
    """Return ``x`` transposed as ``plain`` says, of the shape ``extents``, by tiles.

    Tiles at the end of an axis begin earlier, so that they are whole. The function sees both
    tensors on the axes of ``plain``: a reshape outside of it would be fused with what is before.
    Where images of many channels turn these last (``(channels, positions)``,
    ``(images, channels, positions)``), the result may have ``borders``.
    """
    shape, dtype = plain.shape, str(x.dtype)
    last, rows = len(shape) - 1, plain.rows
    others = [axis for axis in plain.axes if axis not in (last, *rows)]
    tiles = 1 if plain.interleaves() else -(-math.prod(shape[axis] for axis in rows) // LANES)
    counts = (*(shape[axis] for axis in others), tiles)
    shared = T.parallel if math.prod(shape) >= PARALLEL_POINTS else T.serial
    loops = (T.serial, shared) if math.prod(counts) == 1 else (shared, T.serial)

    def emit(inputs: Any, outputs: Any) -> Any:
        with IRBuilder() as builder, loops[0](0, tirx.const(math.prod(counts), "int64")) as n:
            *outer, tile = unravel(n, counts)
            index = dict(zip(others, outer, strict=True))
            moves = _Moves(plain, seen(inputs[0], shape), outputs[0], borders)
            move = moves.interleave if plain.interleaves() else moves.turn
            with loops[1](0, tirx.const(-(-shape[last] // LANES), "int64")) as across:
                move(index, tile, _first(across, shape[last]))
        return _surrounded(builder.get(), plain, outputs[0], borders)

    return te.extern([list(extents)], [x], emit, name="permute", dtype=dtype)


def _surrounded(moves: Any, plain: Permutation, output: Any, borders: Borders | None) -> Any:
    """Return the statement ``moves`` behind one that fills the borders."""
    if borders is None:
        return moves
    *images, channels, _ = plain.shape
    return tirx.SeqStmt([borders.filled(output, math.prod(images), channels), moves])


@dataclass(frozen=True)
class _Moves:
    """Moves of tiles of vectors; ``at`` are the indices of the axes that a tile does not span."""

    plain: Permutation
    source: Any
    output: Any
    borders: Borders | None

    def turn(self, at: dict[int, Any], tile: Any, column: Any) -> None:
        """Emit the move of 16 x 16 elements."""
        rows, shape = self.plain.rows, self.plain.shape
        outer, last = self.plain.axes[: -len(rows)], len(shape) - 1
        inside = tuple(shape[axis] for axis in rows)
        extents = [self._positions if axis == last else shape[axis] for axis in outer]
        result = seen(self.output, [*extents, math.prod(inside)])
        row = _first(tile, math.prod(inside))
        lanes = [tirx.const(lane, "int64") for lane in range(LANES)]
        places = [dict(zip(rows, unravel(row + lane, inside), strict=True)) for lane in lanes]
        loaded = [self._loaded(at | place, column) for place in places]
        for lane, turned in zip(lanes, transpose_tile(loaded), strict=True):
            index = at | {last: self._place(column + lane)}
            result[(*(index[axis] for axis in outer), tirx.Ramp(row, 1, LANES))] = turned

    def interleave(self, at: dict[int, Any], _tile: Any, column: Any) -> None:
        """Emit the move of 16 elements, or all, of all rows, which then lie side by side."""
        *axes, _, rows = self.plain.axes
        count = self.plain.shape[rows]
        loaded = [self._loaded(at | {rows: tirx.const(i, "int64")}, column) for i in range(count)]
        extents = [*(self.plain.shape[axis] for axis in axes), self.plain.shape[-1] * count]
        result = seen(self.output, extents)
        index = [*(at[axis] for axis in axes), tirx.Ramp(column * count, 1, self._lanes * count)]
        result[tuple(index)] = interleaved(loaded)

    @property
    def _lanes(self) -> int:
        """Elements of the contiguous axis that are loaded together."""
        return min(LANES, self.plain.shape[-1])

    @property
    def _positions(self) -> int:
        """Extent, behind the transposition, of the axis that was contiguous."""
        return self.borders.positions if self.borders else self.plain.shape[-1]

    def _place(self, position: Any) -> Any:
        return self.borders.place(position) if self.borders else position

    def _loaded(self, index: dict[int, Any], column: Any) -> Any:
        """Return a vector of the contiguous axis."""
        *outer, _ = range(len(self.plain.shape))
        return self.source[(*(index[axis] for axis in outer), tirx.Ramp(column, 1, self._lanes))]


def _first(tile: Any, extent: int) -> Any:
    """Return where a tile begins on an axis of ``extent``."""
    first, last = tile * LANES, tirx.const(max(0, extent - LANES), "int64")
    return tirx.min(first, last) if extent % LANES else first


def _regrouped(parts: list[_Part], shape: Sequence[int]) -> list[list[_Part]] | None:
    """Return which parts, cut where need be, the axes of ``shape`` consist of."""
    found, rest = [], [part for part in parts if part[0] > 1][::-1]
    for extent in shape:
        axis, left = list[_Part](), extent
        while left > 1:
            part, stride = rest.pop()
            taken = min(part, left)
            if part % taken or left % taken:
                return None
            if taken < part:
                rest.append((part // taken, stride))
            axis.append((taken, stride * (part // taken)))
            left //= taken
        found.append(axis)
    return found
