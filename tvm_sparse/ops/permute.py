"""Axes in another order where the contiguous one moves: 16 x 16 tiles turned in registers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.transpose import LANES, transpose_tile

PARALLEL_POINTS = 1 << 17
"""Smallest tensor that is worth several threads."""


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

    def turns_tiles(self) -> bool:
        """Whether the contiguous axis moves, and whole tiles of both contiguous axes exist."""
        rank = len(self.shape)
        moves = rank > 1 and self.axes[-1] != rank - 1
        return moves and min(self.shape[-1], self.shape[self.axes[-1]]) >= LANES


def permute(x: te.Tensor, plain: Permutation, extents: Sequence[Any]) -> te.Tensor:
    """Return ``x`` transposed as ``plain`` says, of the shape ``extents``, by turning tiles.

    Tiles at the end of an axis begin earlier, so that they are whole. The function sees both
    tensors on the axes of ``plain``: a reshape outside of it would be fused with what is before.
    """
    shape, axes, rank = plain.shape, plain.axes, len(plain.shape)
    dtype = str(x.dtype)
    last, rows = rank - 1, axes[-1]
    others = [axis for axis in range(rank) if axis not in (last, rows)]
    counts = (*(shape[axis] for axis in others), -(-shape[rows] // LANES))
    loop = T.parallel if math.prod(shape) >= PARALLEL_POINTS else T.serial

    def emit(inputs: Any, outputs: Any) -> Any:
        lanes = [tirx.const(lane, "int64") for lane in range(LANES)]
        with IRBuilder() as builder, loop(0, tirx.const(math.prod(counts), "int64")) as n:
            source = _seen(inputs[0], shape, dtype)
            result = _seen(outputs[0], [shape[axis] for axis in axes], dtype)
            *outer, tile = unravel(n, counts)
            row = _first(tile, shape[rows])
            with T.serial(0, tirx.const(-(-shape[last] // LANES), "int64")) as across:
                column = _first(across, shape[last])
                index = dict(zip(others, outer, strict=True))
                tiles = []
                for lane in lanes:
                    index |= {rows: row + lane, last: tirx.Ramp(column, 1, LANES)}
                    tiles.append(source[tuple(index[axis] for axis in range(rank))])
                for lane, turned in zip(lanes, transpose_tile(tiles), strict=True):
                    index |= {rows: tirx.Ramp(row, 1, LANES), last: column + lane}
                    result[tuple(index[axis] for axis in axes)] = turned
        return builder.get()

    return te.extern([list(extents)], [x], emit, name="permute", dtype=dtype)


def _seen(buffer: Any, shape: Sequence[int], dtype: str) -> Any:
    """Return a buffer on the memory of another one, with other axes."""
    return T.buffer_proxy(T.decl_buffer(int64(tuple(shape)), dtype, data=buffer.data))


def _first(tile: Any, extent: int) -> Any:
    """Return where a tile begins on an axis of ``extent``."""
    first = tile * LANES
    return tirx.min(first, tirx.const(extent - LANES, "int64")) if extent % LANES else first
