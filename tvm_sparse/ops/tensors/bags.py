"""Bags of embeddings: sums, means or maxima of rows of a table, without the rows in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import filled, lanes_from, spread
from tvm_sparse.ops.tensors.axis import variable
from tvm_sparse.ops.tensors.scatter import combined

MODES = ("sum", "mean", "max")

_WIDEST = 64
"""Columns that are added up side by side: four registers of AVX-512."""


@dataclass(frozen=True)
class Bags:
    """How bags are made.

    Parameters
    ----------
    mode
        One of :data:`MODES`.
    closed
        Whether the last offset is where the last bag ends; else that is the end of the indices.
    skipped
        The row that does not count, if one.
    """

    mode: str
    closed: bool = False
    skipped: int | None = None


def bags_of_rows(
    table: te.Tensor, indices: te.Tensor, offsets: te.Tensor, factors: te.Tensor | None, how: Bags
) -> te.Tensor:
    """Return for each bag the sum, mean or maximum of the rows of ``table`` at its indices.

    A bag has the indices from its offset to the next one. ``factors`` multiply rows. An index
    outside of the table gives NaN, an empty bag zero.
    """
    count, width = offsets.shape[0] - int(how.closed), int(table.shape[1])
    lanes = min(width, _WIDEST)
    operands = [table, indices, offsets, *([] if factors is None else [factors])]

    def emit(inputs: Any, outputs: Any) -> Any:
        result, (rows, places, starts, *scales) = (
            T.buffer_proxy(outputs[0]),
            [T.buffer_proxy(buffer) for buffer in inputs],
        )
        bag = _Bag(how, rows, places, scales[0] if scales else None, (table, indices))
        with IRBuilder() as builder, T.parallel(0, count) as number:
            first, end = variable("int64"), variable("int64")
            first[0] = bag.inside(starts[number])
            end[0] = tirx.Cast("int64", indices.shape[0])
            with T.If(number + 1 < offsets.shape[0]), T.Then():
                end[0] = bag.inside(starts[tirx.min(number + 1, offsets.shape[0] - 1)])
            with T.serial(0, tirx.const(-(-width // lanes), "int64")) as chunk:
                column = tirx.min(chunk * lanes, tirx.const(width - lanes, "int64"))
                here = lanes_from(column, lanes)
                result[number, here] = bag.reduced(first[0], end[0], here, lanes)
        return builder.get()

    shape, dtype = [count, width], str(table.dtype)
    return te.extern([shape], operands, emit, name="bags", dtype=[dtype])


@dataclass(frozen=True)
class _Bag:
    """What the code of one bag reads."""

    how: Bags
    rows: Any
    places: Any
    factors: Any
    tensors: tuple[te.Tensor, te.Tensor]

    def inside(self, offset: Any) -> Any:
        """Return an offset that is none outside of the indices."""
        last = tirx.Cast("int64", self.tensors[1].shape[0])
        return tirx.max(tirx.min(tirx.Cast("int64", offset), last), tirx.const(0, "int64"))

    def reduced(self, first: Any, end: Any, columns: Any, lanes: int) -> Any:
        """Emit the reduction of some columns and return its result."""
        dtype = str(self.tensors[0].dtype)
        total = T.buffer_proxy(T.decl_buffer([lanes], dtype, scope="local"))
        kept = variable("int64")
        whole = lanes_from(0, lanes)
        least = 0.0 if self.how.mode != "max" else float("-inf")
        total[whole], kept[0] = filled(least, dtype, lanes), tirx.const(0, "int64")
        with T.serial(0, tirx.max(end - first, tirx.const(0, "int64"))) as k:
            index = variable("int64")
            index[0] = tirx.Cast("int64", self.places[first + k])
            counts = index[0] != (-1 if self.how.skipped is None else self.how.skipped)
            with T.If(tirx.const(True, "bool") if self.how.skipped is None else counts), T.Then():
                row = self._row(index[0], columns, lanes)
                if self.factors is not None:
                    row = row * spread(self.factors[first + k], lanes)
                name = "max" if self.how.mode == "max" else "add"
                total[whole] = combined(total[whole], row, name)
                kept[0] = kept[0] + 1
        zero = filled(0.0, dtype, lanes)
        if self.how.mode == "max":
            return tirx.if_then_else(kept[0] == 0, zero, total[whole])
        if self.how.mode == "mean":
            divisor = tirx.Cast(dtype, tirx.max(kept[0], tirx.const(1, "int64")))
            return total[whole] / spread(divisor, lanes)
        return total[whole]

    def _row(self, index: Any, columns: Any, lanes: int) -> Any:
        """Return some columns of a row; of one outside of the table, NaN."""
        extent = tirx.Cast("int64", self.tensors[0].shape[0])
        known = tirx.all(index >= 0, index < extent)
        nan = filled(float("nan"), str(self.tensors[0].dtype), lanes)
        return tirx.if_then_else(known, self.rows[index, columns], nan)
