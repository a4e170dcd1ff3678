"""Reductions over one of the outer axes: columns side by side, in whole vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.machine.vector import LANES
from tvm_sparse.numerics import FLOAT_SUMS, INTEGER_SUMS, vector_type
from tvm_sparse.ops.axis import Lines, flat_view, power_of_two, variable
from tvm_sparse.ops.emit import first_column, lanes_from
from tvm_sparse.ops.permute import PARALLEL_POINTS
from tvm_sparse.ops.quantise import Scale
from tvm_sparse.ops.row_pool import Pooling

MOST_BYTES = (1 << 31) // 256
"""Bytes whose sum is a 32-bit integer."""

LEAST, _MOST = 4 * LANES, 16 * LANES
"""Columns that stay in registers while their rows are combined: long pieces of each row."""

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

    ``lines`` are static, and at least ``LEAST`` of them are side by side. The last tile of columns
    ends with them: it may overlap the one before. With a ``scale``, ``x`` are bytes and ``pooling``
    adds up what they mean: the sums are of whole numbers, at most :data:`MOST_BYTES` of them.
    Each of ``threads`` then adds up its part of the rows, which it wrote as its part of the layer
    before.
    """
    before, extent, columns = (int(n) for n in (lines.before, lines.extent, lines.after))
    size = before * extent * columns
    shared = size >= PARALLEL_POINTS
    parts = min(threads, extent) if scale and shared and before == 1 else 1
    width = _width(columns, shared=shared and before == 1 and parts == 1)
    dtype, kind = (FLOAT_SUMS, INTEGER_SUMS) if scale else (str(x.dtype), str(x.dtype))
    tiles = _Tiles(pooling, (extent, columns, width), kind)

    def finished(total: Any) -> Any:
        one, rows = tirx.const(1, "int64"), tirx.const(extent, "int64")
        return pooling.finish(scale.meaning(total, extent) if scale else total, one, rows)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        loop = T.parallel if shared and parts == 1 else T.serial
        tasks = before * (tiles.count if parts == 1 else 1)
        with IRBuilder() as builder, loop(0, tirx.const(tasks, "int64")) as task:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], before * columns)
            if parts == 1:
                item, tile = task // tiles.count, task % tiles.count
                found = tiles.combined(source, item * extent, item * extent + extent, tile)
                tiles.store(result, item * columns, tile, found, finished)
            else:
                _by_parts(tiles, parts, source, result, finished)
        return builder.get()

    return te.extern([shape], [x], emit, name="column_pool", dtype=[dtype])


def _by_parts(
    tiles: _Tiles, parts: int, source: Any, result: Any, finished: Callable[[Any], Any]
) -> None:
    """Emit a part of the rows for each thread, and what combines them."""
    sums = T.buffer_proxy(T.decl_buffer([parts * tiles.columns], tiles.kind))
    with T.parallel(0, tirx.const(parts, "int64")) as part:
        first, end = (p * tiles.extent // parts for p in (part, part + 1))
        with T.serial(0, tirx.const(tiles.count, "int64")) as tile:
            found = tiles.combined(source, first, end, tile)
            tiles.store(sums, part * tiles.columns, tile, found, lambda total: total)
    whole = _Tiles(tiles.pooling, (parts, tiles.columns, tiles.width), tiles.kind)
    none, every = tirx.const(0, "int64"), tirx.const(parts, "int64")
    with T.serial(0, tirx.const(tiles.count, "int64")) as tile:
        whole.store(result, none, tile, whole.combined(sums, none, every, tile), finished)


class _Tiles:
    """Tiles of columns of a tensor, which stay in registers while their rows are combined.

    Parameters
    ----------
    shape
        Rows, columns, and the columns of a tile.
    kind
        Type of what is combined.
    """

    def __init__(self, pooling: Pooling, shape: tuple[int, int, int], kind: str) -> None:
        self.pooling, self.kind = pooling, kind
        self.extent, self.columns, self.width = shape
        self.count, self._vectors = -(-self.columns // self.width), self.width // LANES

    def combined(self, source: Any, first: Any, end: Any, tile: Any) -> Any:
        """Emit what the rows from ``first`` to ``end`` become in the columns of ``tile``."""
        column = first_column(tile, self.width, self.columns)
        found, wide = variable(self.kind, self.width), vector_type(self.kind, LANES)

        def loaded(row: Any, vector: Any) -> Any:
            at = row * self.columns + column + vector * LANES
            return tirx.Cast(wide, source[lanes_from(at, LANES)])

        with T.unroll(0, self._vectors) as vector:
            found[lanes_from(vector * LANES, LANES)] = loaded(first, vector)
        with T.serial(first + 1, end) as row, T.unroll(0, self._vectors) as vector:
            place = lanes_from(vector * LANES, LANES)
            found[place] = self.pooling.combine(found[place], loaded(row, vector))
        return found

    def store(
        self, result: Any, start: Any, tile: Any, found: Any, finished: Callable[[Any], Any]
    ) -> None:
        """Emit the stores of what is ``finished`` of a tile's columns, in the row at ``start``."""
        column = first_column(tile, self.width, self.columns)
        lanes = tirx.const(LANES, "int64")
        with T.unroll(0, self._vectors) as vector, T.vectorized(0, lanes) as lane:
            place = vector * LANES + lane
            result[start + column + place] = finished(found[place])


def _width(columns: int, *, shared: bool) -> int:
    """Return the columns of a tile: tiles side by side if there are any, an even number if shared.

    Else the last tile overlaps the one before, and reads its columns again.
    """
    whole = [w for w in range(_NARROW, _MOST + 1, LANES) if columns % w == 0]
    even = [w for w in whole if columns // w % 2 == 0] if shared else []
    return max(even or whole, default=power_of_two(min(columns, _MOST)))
