"""Two runs of axes change places where some of their extents are open: tiles move in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import seen
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.axis import elements
from tvm_sparse.ops.transpose import LANES, transpose_tile


@dataclass(frozen=True)
class Turn:
    """A transposition of ``(*lead, *rows, *columns)`` to ``(*lead, *columns, *rows)``.

    ``rows`` begin with axis ``first``, ``columns`` with axis ``second``.
    """

    first: int
    second: int

    @staticmethod
    def of(order: Sequence[int]) -> Turn | None:
        """Return the turn that gives axes this ``order``, ``None`` if it is another one."""
        plain, rank = list(range(len(order))), len(order)
        first = next((i for i in plain if order[i] != i), rank)
        if first == rank:
            return None
        second = order[first]
        turned = [*plain[:first], *plain[second:], *plain[first:second]]
        return Turn(first, second) if list(order) == turned else None

    def sides(self, shape: Sequence[Any]) -> tuple[Any, Any, Any]:
        """Return how many images, rows and columns a tensor of ``shape`` has."""
        runs = shape[: self.first], shape[self.first : self.second], shape[self.second :]
        images, rows, columns = (elements(run) for run in runs)
        return images, rows, columns

    def suits(self, shape: Sequence[Any]) -> bool:
        """Whether there may be tiles in a tensor of ``shape``."""
        _, *sides = self.sides(shape)
        return all(not isinstance(side, int) or side >= LANES for side in sides)


def open_turn(x: te.Tensor, turn: Turn) -> te.Tensor:
    """Return ``x`` turned, by tiles of 16 x 16; the last tile of an axis begins earlier.

    Sides of fewer elements than a tile are moved one by one. Threads share the tiles of an image
    along an open side.
    """
    shape = list(x.shape)
    images, rows, columns = int64(turn.sides(shape))
    extents = [*shape[: turn.first], *shape[turn.second :], *shape[turn.first : turn.second]]
    by_rows = not isinstance(rows, tirx.IntImm)

    def emit(inputs: Any, outputs: Any) -> Any:
        def tiles() -> None:
            outer, inner = (rows, columns) if by_rows else (columns, rows)
            with T.parallel(0, _count(outer)) as far, T.serial(0, _count(inner)) as near:
                row, column = (far, near) if by_rows else (near, far)
                row, column = _first(row, rows), _first(column, columns)
                across = tirx.Ramp(column, 1, LANES)
                loaded = [source[(image, row + lane, across)] for lane in range(LANES)]
                for lane, turned in enumerate(transpose_tile(loaded)):
                    result[(image, column + lane, tirx.Ramp(row, 1, LANES))] = turned

        def singly() -> None:
            with T.grid(rows, columns) as (row, column):
                result[(image, column, row)] = source[(image, row, column)]

        with IRBuilder() as builder, T.serial(0, images) as image:
            source = seen(inputs[0], (images, rows, columns))
            result = seen(outputs[0], (images, columns, rows))
            with T.If(tirx.all(rows >= LANES, columns >= LANES)):
                with T.Then():
                    tiles()
                with T.Else():
                    singly()
        return builder.get()

    return te.extern([extents], [x], emit, name="open_turn", dtype=str(x.dtype))


def _count(extent: Any) -> Any:
    return tirx.floordiv(extent + (LANES - 1), tirx.const(LANES, "int64"))


def _first(tile: Any, extent: Any) -> Any:
    """Return where a tile begins on an axis of ``extent``."""
    return tirx.min(tile * LANES, extent - LANES)
