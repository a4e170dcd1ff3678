"""Mean and deviation of groups of channels that lie last: two passes, in whole vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.ieee import subtract
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.axis import by_blocks, flat_view, variable
from tvm_sparse.ops.tensors.moments import NUMBERS, add_sums, loop_over, numbers_of, reciprocal_of

_WIDEST = 4 * LANES
"""Channels side by side: additions of four vectors overlap, one would wait for itself."""

_BLOCK = 64
"""Positions whose sum is added up by itself: a sum of floats loses what each addition rounds."""


@dataclass(frozen=True)
class Columns:
    """A tensor of ``(images, positions, channels)``, of which ``each`` neighbours are a group.

    ``channels`` are whole vectors. Images and positions may be open.
    """

    images: Any
    positions: Any
    channels: int
    each: int

    @property
    def lanes(self) -> int:
        """Channels side by side."""
        return math.gcd(self.channels, _WIDEST)

    @property
    def bundle(self) -> int:
        """Channels that are whole groups and whole vectors."""
        return math.lcm(self.lanes, self.each)


def column_moments(x: te.Tensor, c: Columns, epsilon: float) -> te.Tensor:
    """Return what :func:`~tvm_sparse.ops.tensors.moments.moments` does, ``(3, images * channels)``.

    Channels of one group have the same numbers, so that vectors of them are read.
    """
    bundles, count = c.channels // c.bundle, c.images * c.channels
    size = count * c.positions
    (tasks,), loop = int64((c.images * bundles,)), loop_over(size)
    shape = int64((NUMBERS, count))

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, tasks) as n:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], count * NUMBERS)
            image, bundle = n // bundles, n % bundles
            first = image * (c.positions * c.channels) + bundle * c.bundle
            _Bundle(c, source, first).emit(result, n * c.bundle, epsilon)
        return builder.get()

    return te.extern([shape], [x], emit, name="column_moments", dtype=[FLOAT_SUMS])


@dataclass(frozen=True)
class _Bundle:
    """The code of one bundle of channels, whose elements begin with ``first``."""

    c: Columns
    source: Any
    first: Any

    def emit(self, result: Any, start: Any, epsilon: float) -> None:
        """Emit both passes; numbers of the first channel are at ``start``."""
        c, count = self.c, self.c.images * self.c.channels
        reciprocal = reciprocal_of(c.positions * c.each)
        means, totals, rests, squares = (variable(FLOAT_SUMS, c.bundle) for _ in range(4))
        self._sums([totals], lambda value, _channel: [value])
        with self._groups() as g:
            mean = self._added(totals, g)
            with T.serial(0, tirx.const(c.each, "int64")) as k:
                means[g * c.each + k] = mean[0] * reciprocal

        def centred(value: Any, channel: Any) -> list[Any]:
            left = subtract(value, means[channel])
            return [left, left * left]

        self._sums([rests, squares], centred)
        with self._groups() as g:
            rest, square = self._added(rests, g), self._added(squares, g)
            shift = rest[0] * reciprocal
            variance = subtract(square[0] * reciprocal, shift * shift)
            found = numbers_of(means[g * c.each], shift, variance, epsilon)
            with T.serial(0, tirx.const(c.each, "int64")) as k:
                for place, value in enumerate(found):
                    result[place * count + start + g * c.each + k] = value

    def _groups(self) -> Any:
        return T.serial(0, tirx.const(self.c.bundle // self.c.each, "int64"))

    def _added(self, sums: Any, group: Any) -> Any:
        """Emit the sum of a group's channels."""
        total = variable(FLOAT_SUMS)
        total[0] = tirx.const(0, FLOAT_SUMS)
        with T.serial(0, tirx.const(self.c.each, "int64")) as k:
            total[0] = total[0] + sums[group * self.c.each + k]
        return total

    def _sums(self, sums: Sequence[Any], terms: Callable[[Any, Any], list[Any]]) -> None:
        """Emit the sums of ``terms`` of all elements, a channel each, block by block."""
        c, lanes = self.c, tirx.const(self.c.lanes, "int64")
        positions, zero = int64((c.positions,))[0], tirx.const(0, FLOAT_SUMS)

        with T.serial(0, tirx.const(c.bundle // c.lanes, "int64")) as chunk:

            def added(start: Any, steps: Any, chunk: Any = chunk) -> list[Any]:
                found = [variable(FLOAT_SUMS, c.lanes) for _ in sums]
                with T.vectorized(0, lanes) as lane:
                    for total in found:
                        total[lane] = zero
                with T.serial(0, steps) as step, T.vectorized(0, lanes) as lane:
                    channel = chunk * c.lanes + lane
                    value = self.source[self.first + (start + step) * c.channels + channel]
                    for total, term in zip(found, terms(value, channel), strict=True):
                        total[lane] = total[lane] + term
                return found

            totals = by_blocks(positions, _BLOCK, added, add_sums)
            with T.vectorized(0, lanes) as lane:
                for target, total in zip(sums, totals, strict=True):
                    target[chunk * c.lanes + lane] = total[lane]
