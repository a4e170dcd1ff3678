"""Mean and deviation of neighbours in memory: two passes over them, in whole vectors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.emit import lanes_from
from tvm_sparse.ops.ieee import subtract
from tvm_sparse.ops.marks import int64
from tvm_sparse.ops.tensors.axis import by_blocks, elements, flat_view, folded, variable

_WIDEST = 4 * LANES
"""Sums side by side: additions of four vectors overlap, one would wait for itself."""

_BLOCK = 64
"""Pieces of so many elements that are added up by themselves: every addition rounds."""

MANY = 32768
"""Elements from which on rows are shared between threads."""

NUMBERS = 3
MEAN, SHIFT, INVERSE = range(NUMBERS)
"""What :func:`moments` returns of each row."""


@dataclass(frozen=True)
class Rows:
    """``count`` rows of ``width`` neighbours in memory; both may be open."""

    count: Any
    width: Any


def moments(x: te.Tensor, rows: Rows, epsilon: float) -> te.Tensor:
    """Return three numbers of each of the ``rows`` of fp32 elements, ``(rows.count, 3)``.

    ``MEAN`` and ``SHIFT``, the mean of what is left without it, are together the mean (see
    :class:`.Statistics`); ``INVERSE`` is ``1 / sqrt(var + epsilon)``.
    """

    def numbers(mean: Any, shift: Any, variance: Any) -> list[Any]:
        return numbers_of(mean, shift, variance, epsilon)

    return _of_rows(x, rows, numbers, NUMBERS, "moments")


def numbers_of(mean: Any, shift: Any, variance: Any, epsilon: float) -> list[Any]:
    """Return what a row is standardised by."""
    one, least = (tirx.const(value, FLOAT_SUMS) for value in (1, epsilon))
    return [mean, shift, one / tirx.sqrt(variance + least)]


def variances(x: te.Tensor, rows: Rows) -> te.Tensor:
    """Return the variance of each of the ``rows`` of fp32 elements, ``(rows.count, 1)``."""
    return _of_rows(x, rows, lambda _mean, _shift, variance: [variance], 1, "variances")


def _of_rows(
    x: te.Tensor, rows: Rows, numbers: Callable[[Any, Any, Any], list[Any]], each: int, name: str
) -> te.Tensor:
    """Return ``each`` numbers of a row, made of its mean, shift and variance."""
    size, row = elements(x.shape), _Row(rows.width)
    extents = int64((rows.count, each))
    count, loop = extents[0], loop_over(size)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, count) as number:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], count * each)
            for place, value in enumerate(numbers(*row.emit(source, number * rows.width))):
                result[number * each + place] = value
        return builder.get()

    return te.extern([extents], [x], emit, name=name, dtype=[FLOAT_SUMS])


def reciprocal_of(count: Any) -> Any:
    """Return one over a number of elements, which may be open."""
    if isinstance(count, int):
        return tirx.const(1 / count, FLOAT_SUMS)
    return tirx.const(1, FLOAT_SUMS) / count.astype(FLOAT_SUMS)


def add_sums(totals: Sequence[Any], found: Sequence[Any]) -> None:
    """Emit the addition of vectors of sums to others, lane by lane."""
    for total, other in zip(totals, found, strict=True):
        with T.vectorized(0, tirx.const(int(total.shape[0]), "int64")) as lane:
            total[lane] = total[lane] + other[lane]


def loop_over(size: Any) -> Any:
    """Return the loop over ``size`` elements: threads share those of open extents, and many."""
    return T.parallel if not isinstance(size, int) or size >= MANY else T.serial


@dataclass(frozen=True)
class _Row:
    """The code of one row."""

    width: Any

    def emit(self, source: Any, first: Any) -> list[Any]:
        """Emit both passes over the row from ``first`` on; return mean, shift and variance."""
        reciprocal = reciprocal_of(self.width)
        mean, shift, variance = (variable(FLOAT_SUMS) for _ in range(3))
        (total,) = self._sums(source, first, [lambda v: v])
        mean[0] = total * reciprocal

        def squared(value: Any) -> Any:
            return subtract(value, mean[0]) * subtract(value, mean[0])

        rest, squares = self._sums(source, first, [lambda v: subtract(v, mean[0]), squared])
        shift[0] = rest * reciprocal
        variance[0] = subtract(squares * reciprocal, shift[0] * shift[0])
        return [mean[0], shift[0], variance[0]]

    def _sums(
        self, source: Any, first: Any, terms: Sequence[Callable[[Any], Any]]
    ) -> Sequence[Any]:
        """Emit the sums of each term of all elements, and return them.

        The last vector ends with the row; what the one before has already is left out.
        """
        width, sums = int64((self.width,))[0], [variable(FLOAT_SUMS, LANES) for _ in terms]
        steps, zero = list(zip(sums, terms, strict=True)), tirx.const(0, FLOAT_SUMS)
        whole, rest = width // _WIDEST, width % LANES
        for total, found in zip(sums, self._wide(source, first, whole, terms), strict=True):
            total[lanes_from(0, LANES)] = folded(found, _WIDEST, operator.add, LANES)
        with T.serial(0, width % _WIDEST // LANES) as piece:
            with T.vectorized(0, tirx.const(LANES, "int64")) as lane:
                for total, term in steps:
                    place = whole * _WIDEST + piece * LANES + lane
                    total[lane] = total[lane] + term(source[first + place])
        with T.If(tirx.all(rest > 0, width >= LANES)):
            with T.Then(), T.vectorized(0, tirx.const(LANES, "int64")) as lane:
                for total, term in steps:
                    value = term(source[first + (width - LANES) + lane])
                    total[lane] = total[lane] + tirx.Select(lane >= LANES - rest, value, zero)
            with T.Else(), T.serial(0, rest) as k:
                for total, term in steps:
                    total[0] = total[0] + term(source[first + k])
        return [folded(total, LANES, operator.add) for total in sums]

    def _wide(
        self, source: Any, first: Any, whole: Any, terms: Sequence[Callable[[Any], Any]]
    ) -> Sequence[Any]:
        """Emit the sums of ``whole`` pieces of a row, in lanes; those of a long row by blocks."""
        lanes, zero = tirx.const(_WIDEST, "int64"), tirx.const(0, FLOAT_SUMS)

        def added(start: Any, count: Any) -> list[Any]:
            found = [variable(FLOAT_SUMS, _WIDEST) for _ in terms]
            with T.vectorized(0, lanes) as lane:
                for total in found:
                    total[lane] = zero
            with T.serial(0, count) as chunk, T.vectorized(0, lanes) as lane:
                for total, term in zip(found, terms, strict=True):
                    value = source[first + (start + chunk) * _WIDEST + lane]
                    total[lane] = total[lane] + term(value)
            return found

        if isinstance(self.width, int) and self.width <= _BLOCK * _WIDEST:
            return added(tirx.const(0, "int64"), whole)
        return by_blocks(whole, _BLOCK, added, add_sums)
