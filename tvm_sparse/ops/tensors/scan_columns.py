"""Running sums and products of lines that lie side by side in memory, in vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS, vector_type
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.emit import filled, lanes_from
from tvm_sparse.ops.tensors.axis import Lines, flat_view, power_of_two, variable

_WIDEST = 8 * LANES
"""Running sums side by side: half a kilobyte of each row."""

_SHORT = 8
"""Elements whose sums may be in single precision: after them their total is added up in double."""


@dataclass(frozen=True)
class ColumnScan:
    """Running sums (or products) of ``columns`` lines side by side, ``exclusive``: before each one.

    Sums of fp32 are those of up to ``_SHORT`` elements in fp32 and of all before them in ``wide``:
    they are wrong by two roundings of sums, however long a line is, and take half of the time.
    """

    lines: Lines
    columns: int
    wide: str
    dtype: str
    product: bool
    exclusive: bool

    def emitted(self, before: Any, after: Any) -> Any:
        """Return the code; the last vector may overlap the one before it."""
        lanes, few = _tile(self.columns)
        full = self.columns // lanes
        tiles = full + (1 if few else 0)
        with IRBuilder() as builder, T.parallel(0, self.lines.before * tiles) as number:
            size = self.lines.before * self.lines.extent * self.columns
            source, result = (flat_view(buffer, size) for buffer in (before, after))
            item, tile = number // tiles * self.lines.extent, number % tiles

            def lines(column: Any, lanes: int) -> None:
                place = _Place(source, result, item, column, self.columns, lanes)
                short = self.dtype == FLOAT_SUMS and not self.product
                (self._in_blocks if short else self._one_by_one)(place)

            if not few:
                lines(tile * lanes, lanes)
            else:
                with T.If(tile < full):
                    with T.Then():
                        lines(tile * lanes, lanes)
                    with T.Else():
                        lines(tirx.const(self.columns - few, "int64"), few)
        return builder.get()

    def _one_by_one(self, at: _Place) -> None:
        total, whole = variable(self.wide, at.lanes), lanes_from(0, at.lanes)
        total[whole] = filled(1 if self.product else 0, self.wide, at.lanes)
        with T.serial(0, self.lines.extent) as i:
            here = at.row(i)
            if self.exclusive:
                at.result[here] = self._cast(total[whole], self.dtype, at.lanes)
            value = self._cast(at.source[here], self.wide, at.lanes)
            total[whole] = total[whole] * value if self.product else total[whole] + value
            if not self.exclusive:
                at.result[here] = self._cast(total[whole], self.dtype, at.lanes)

    def _in_blocks(self, at: _Place) -> None:
        total, whole = variable(self.wide, at.lanes), lanes_from(0, at.lanes)
        total[whole] = filled(0, self.wide, at.lanes)
        blocks = self.lines.extent // _SHORT
        with T.serial(0, blocks) as block:
            self._block(at, total, block * _SHORT, _SHORT)
        self._block(at, total, blocks * _SHORT, self.lines.extent - blocks * _SHORT)

    def _block(self, at: _Place, total: Any, first: Any, count: Any) -> None:
        whole = lanes_from(0, at.lanes)
        start, short = variable(self.dtype, at.lanes), variable(self.dtype, at.lanes)
        start[whole] = self._cast(total[whole], self.dtype, at.lanes)
        short[whole] = filled(0, self.dtype, at.lanes)
        with T.serial(0, count) as i:
            here = at.row(first + i)
            if self.exclusive:
                at.result[here] = start[whole] + short[whole]
            short[whole] = short[whole] + at.source[here]
            if not self.exclusive:
                at.result[here] = start[whole] + short[whole]
        total[whole] = total[whole] + self._cast(short[whole], self.wide, at.lanes)

    @staticmethod
    def _cast(value: Any, dtype: str, lanes: int) -> Any:
        return tirx.Cast(vector_type(dtype, lanes), value)


def _tile(columns: int) -> tuple[int, int]:
    """Return the lanes of the vectors of columns, and those of the last one if it is another.

    They are a few registers, and overlap in as few columns as can be.
    """
    if columns <= LANES:
        return columns, 0
    widest = power_of_two(min(columns, _WIDEST))
    found = []
    for lanes in (widest, max(LANES, widest // 2)):
        full, rest = divmod(columns, lanes)
        few = max(LANES, power_of_two(2 * rest - 1)) if rest else 0
        found.append((full * lanes + few, lanes, few))
    _, lanes, few = min(found, key=lambda tile: tile[0])
    return lanes, few


@dataclass(frozen=True)
class _Place:
    """``lanes`` of the ``columns`` of a tensor, from ``column`` on, below the row ``first``."""

    source: Any
    result: Any
    first: Any
    column: Any
    columns: int
    lanes: int

    def row(self, i: Any) -> Any:
        """Return the index of row ``i``."""
        start = tirx.Cast("int64", (self.first + i) * self.columns + self.column)
        return tirx.Ramp(start, tirx.const(1, "int64"), self.lanes)
