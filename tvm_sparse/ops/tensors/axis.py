"""What operators along one axis share: where a line of a tensor begins and how far it steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx, topi
from tvm.script.ir_builder import tirx as T
from tvm.sym import Analyzer

from tvm_sparse.ops.emit import lanes_from


@dataclass(frozen=True)
class Lines:
    """The lines of a tensor along one axis, as flat positions.

    Parameters
    ----------
    before, extent, after
        Products of the extents before the axis, of it, and after it.
    """

    before: Any
    extent: Any
    after: Any

    @staticmethod
    def of(shape: Sequence[Any], axis: int) -> Lines:
        """Return the lines of a tensor of ``shape`` along ``axis`` (not negative)."""
        return Lines(topi.utils.prod(shape[:axis]), shape[axis], topi.utils.prod(shape[axis + 1 :]))

    @property
    def count(self) -> Any:
        """Number of lines."""
        return self.before * self.after

    def place(self, line: Any, position: Any) -> Any:
        """Return the flat index of ``position`` on ``line``."""
        first = line // self.after * (self.extent * self.after) + line % self.after
        return first + position * self.after


def variable(dtype: str, lanes: int = 1) -> Any:
    """Return a local variable of a function under construction, read and set as ``v[0]``.

    One of several ``lanes`` is read and set as a vector, ``v[Ramp(0, 1, lanes)]``.

    Values that are used more than once are kept in one: expressions are written out at each use.
    """
    return T.buffer_proxy(T.decl_buffer([lanes], dtype, scope="local"))


def by_blocks(
    count: Any, size: int, part: Callable[[Any, Any], Any], join: Callable[[Any, Any], None]
) -> Any:
    """Emit ``part(start, steps)`` for blocks of ``size`` of ``count`` steps; return all, joined.

    ``join(found, other)`` adds what another block has found to ``found``. A sum of floats loses
    what each addition rounds: one by one, a million lose the third digit.
    """
    found = part(tirx.const(0, "int64"), tirx.min(count, size))
    with T.serial(0, tirx.max(count - 1, 0) // size) as block:
        start = (block + 1) * size
        join(found, part(start, tirx.min(count - start, size)))
    return found


def elements(shape: Sequence[Any]) -> Any:
    """Return how many elements a tensor of ``shape`` has: a number if no extent is open."""
    known = math.prod(int(e) for e in shape if isinstance(e, int | tirx.IntImm))
    open_ones = [e for e in shape if not isinstance(e, int | tirx.IntImm)]
    return topi.utils.prod(open_ones) * known if open_ones else known


def rows_of(size: Any, width: int) -> Any:
    """Return how many rows of ``width`` elements there are in ``size``, which may be open."""
    rows = size // width
    return rows if isinstance(size, int) else Analyzer().simplify(rows)


def flat_view(buffer: tirx.Buffer, size: Any) -> Any:
    """Return the ``size`` elements of a buffer, as they lie in memory."""
    return T.buffer_proxy(T.decl_buffer([size], buffer.dtype, data=buffer.data))


def power_of_two(most: int) -> int:
    """Return the largest power of two up to ``most``: so many lanes fill registers."""
    return 1 << (most.bit_length() - 1)


def folded(vector: Any, lanes: int, combine: Callable[[Any, Any], Any], least: int = 1) -> Any:
    """Emit the reduction of a local vector by halves, in registers, and return its result.

    ``lanes`` and the ``least`` ones, those of the result, are powers of two.
    """
    value, dtype = vector[lanes_from(0, lanes)], vector.dtype
    while lanes > least:
        lanes //= 2
        every = lanes_from(0, lanes)
        # In variables: TVM writes a bound value out at each use, and each step has several.
        halves = [variable(dtype, lanes) for _ in range(2)]
        for half, first in zip(halves, (0, lanes), strict=True):
            places = [tirx.const(first + lane, "int32") for lane in range(lanes)]
            half[every] = tirx.Shuffle([value], places)
        value = combine(*(half[every] for half in halves))
    return T.bind(value)


def on_axis(x: te.Tensor, axis: int) -> int:
    """Return ``axis`` counted from the front."""
    return axis % len(x.shape)
