"""Reductions over one of the outer axes: columns side by side, in whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS, INTEGER_SUMS, vector_type
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.emit import first_column, lanes_from
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.axis import Lines, by_blocks, flat_view, power_of_two, variable
from tvm_sparse.ops.tensors.permute import PARALLEL_POINTS
from tvm_sparse.ops.tensors.row_pool import Pooling

MOST_BYTES = (1 << 31) // 256
"""Bytes whose sum is a 32-bit integer."""

LEAST, _MOST = 4 * LANES, 16 * LANES
"""Columns that stay in registers while their rows are combined: long pieces of each row."""

_BLOCK = 512
"""Rows that are combined by themselves."""

_NARROW = 3 * LANES
"""Fewest columns of a tile that ends where others begin."""


def column_pool(
    x: te.Tensor,
    lines: Lines,
    pooling: Pooling,
    shape: Sequence[Any],
    scale: Scale | None = None,
    *,
    threads: int = 1,
) -> te.Tensor:
    """Return the tensor of ``shape`` of what ``pooling`` makes of each of ``lines`` of ``x``.

    At least ``LEAST`` of the ``lines`` are side by side, and what is before them may be open. The
    last tile of columns
    ends with them: it may overlap the one before. With a ``scale``, ``x`` are bytes and ``pooling``
    adds up what they mean: the sums are of whole numbers, at most :data:`MOST_BYTES` of them.
    Each of ``threads`` then adds up its part of the rows, which it wrote as its part of the layer
    before.
    """
    before, extent, columns = lines.before, int(lines.extent), int(lines.after)
    size, alone = before * extent * columns, isinstance(before, int) and before == 1
    shared = not isinstance(size, int) or size >= PARALLEL_POINTS
    parts = min(threads, extent) if scale and shared and alone else 1
    width = _width(columns, shared=shared and alone and parts == 1)
    dtype, kind = (FLOAT_SUMS, INTEGER_SUMS) if scale else (str(x.dtype), str(x.dtype))
    tiles = _Tiles(pooling, columns, width, kind)
    loop, tasks = T.parallel if shared else T.serial, before * tiles.count
    if parts > 1:
        loop, tasks = T.serial, 1  # whose body has a parallel loop

    def finished(total: Any) -> Any:
        one, rows = tirx.const(1, "int64"), tirx.const(extent, "int64")
        return pooling.finish(scale.meaning(total, extent) if scale else total, one, rows)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, *int64((tasks,))) as task:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], before * columns)
            if parts > 1:
                sums = _sums_of_parts(tiles, source, extent, parts)
                with T.serial(0, tirx.const(tiles.count, "int64")) as tile:
                    found = tiles.combined(sums, 0, parts, tile)
                    tiles.store(result, 0, tile, found, finished)
            else:
                item, tile = task // tiles.count, task % tiles.count
                found = tiles.combined(source, item * extent, item * extent + extent, tile)
                tiles.store(result, item, tile, found, finished)
        return builder.get()

    return te.extern([shape], [x], emit, name="column_pool", dtype=[dtype])


@dataclass(frozen=True)
class _Tiles:
    """Tiles of ``width`` columns, which stay in registers as ``kind`` while rows are combined."""

    pooling: Pooling
    columns: int
    width: int
    kind: str

    @property
    def count(self) -> int:
        """Tiles across."""
        return -(-self.columns // self.width)

    def combined(self, source: Any, first: Any, end: Any, tile: Any) -> Any:
        """Emit what the rows from ``first`` to ``end`` become in the columns of ``tile``.

        Rows are combined block by block: a sum of floats loses what each addition rounds.
        """
        first, end = (tirx.Cast("int64", row) for row in (first, end))

        def part(start: Any, rows: Any) -> Any:
            found = variable(self.kind, self.width)
            self._combine_rows(found, source, first + start, rows, tile)
            return found

        def join(found: Any, other: Any) -> None:
            with T.unroll(0, self.width // LANES) as vector:
                place = lanes_from(vector * LANES, LANES)
                found[place] = self.pooling.combine(found[place], other[place])

        return by_blocks(end - first, _BLOCK, part, join)

    def _combine_rows(self, found: Any, source: Any, first: Any, rows: Any, tile: Any) -> None:
        """Emit what sets ``found`` to what ``rows`` become, one after another."""
        column, wide = first_column(tile, self.width, self.columns), vector_type(self.kind, LANES)

        def loaded(row: Any, vector: Any) -> Any:
            at = row * self.columns + column + vector * LANES
            return tirx.Cast(wide, source[lanes_from(at, LANES)])

        with T.unroll(0, self.width // LANES) as vector:
            found[lanes_from(vector * LANES, LANES)] = loaded(first, vector)
        with T.serial(0, rows - 1) as row, T.unroll(0, self.width // LANES) as vector:
            place = lanes_from(vector * LANES, LANES)
            found[place] = self.pooling.combine(found[place], loaded(first + 1 + row, vector))

    def store(
        self, result: Any, row: Any, tile: Any, found: Any, finished: Callable[[Any], Any]
    ) -> None:
        """Emit the stores of what is ``finished`` of a tile's columns, in a row of ``result``."""
        first = row * self.columns + first_column(tile, self.width, self.columns)
        lanes = tirx.const(LANES, "int64")
        with T.unroll(0, self.width // LANES) as vector, T.vectorized(0, lanes) as lane:
            place = vector * LANES + lane
            result[first + place] = finished(found[place])


def _sums_of_parts(tiles: _Tiles, source: Any, extent: int, parts: int) -> Any:
    """Emit the sums of a part of the rows for each thread, and return their rows."""
    sums = T.buffer_proxy(T.decl_buffer([parts * tiles.columns], tiles.kind))
    with T.parallel(0, tirx.const(parts, "int64")) as part:
        first, end = (p * extent // parts for p in (part, part + 1))
        with T.serial(0, tirx.const(tiles.count, "int64")) as tile:
            found = tiles.combined(source, first, end, tile)
            tiles.store(sums, part, tile, found, lambda total: total)
    return sums


def _width(columns: int, *, shared: bool) -> int:
    """Return the columns of a tile: tiles side by side if there are any, an even number if shared.

    Else the last tile overlaps the one before, and reads its columns again.
    """
    whole = [w for w in range(_NARROW, _MOST + 1, LANES) if columns % w == 0]
    even = [w for w in whole if columns // w % 2 == 0] if shared else []
    return max(even or whole, default=power_of_two(min(columns, _MOST)))
