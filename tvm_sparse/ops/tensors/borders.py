"""Borders around the spatial axes of channels-last tensors, for functions that write both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.emit import seen, unravel
from tvm_sparse.ops.marks import flat


@dataclass(frozen=True)
class Borders:
    """Positions ``before`` and ``after`` each spatial axis of extents ``inside``, and their value.

    Positions of all spatial axes together are one number, row-major.
    """

    inside: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    value: float = 0

    @staticmethod
    def of(inside: Sequence[int], padding: Sequence[int]) -> Borders:
        """Return them from what :data:`~tvm_sparse.ops.marks.PADDING` holds."""
        *widths, value = map(int, padding)
        rank = len(inside)
        return Borders(tuple(inside), tuple(widths[:rank]), tuple(widths[rank:]), value)

    @property
    def whole(self) -> tuple[int, ...]:
        """Spatial extents with the borders."""
        axes = zip(self.before, self.inside, self.after, strict=True)
        return tuple(b + e + a for b, e, a in axes)

    @property
    def positions(self) -> int:
        """How many positions there are with the borders."""
        return math.prod(self.whole)

    def place(self, position: Any) -> Any:
        """Return where a position inside is with the borders."""
        index = unravel(position, self.inside)
        return flat([i + b for i, b in zip(index, self.before, strict=True)], self.whole)

    def filled(self, output: Any, images: int, channels: int) -> Any:
        """Return the statement that writes the value all over the borders of ``output``.

        It has ``images`` times the positions, and ``channels`` last. The borders of the first axis
        go all along the others; those of each later axis are between those of the axes before it.
        """
        with IRBuilder() as builder, T.serial(0, tirx.const(images, "int64")) as image:
            result = seen(output, (images, self.positions, channels))
            for axis, (width, extent) in enumerate(zip(self.before, self.inside, strict=True)):
                for start, rows in ((0, width), (width + extent, self.after[axis])):
                    if rows:
                        self._fill(result, (image, axis, start), rows * channels)
        return builder.get()

    def _fill(self, output: Any, at: tuple[Any, int, int], elements: int) -> None:
        """Emit as many elements from ``start`` on for each position of the axes before ``axis``."""
        image, axis, start = at
        outer, channels = self.inside[:axis], int(output.shape[-1])
        rest = math.prod(self.whole[axis + 1 :])
        value = tirx.const(self.value, str(output.dtype))
        with T.serial(0, tirx.const(math.prod(outer), "int64")) as n:
            moved = [i + b for i, b in zip(unravel(n, outer), self.before, strict=False)]
            first = flat([*moved, start], self.whole[: axis + 1]) * rest
            with T.serial(0, tirx.const(elements * rest, "int64")) as i:
                output[image, first + i // channels, i % channels] = value
