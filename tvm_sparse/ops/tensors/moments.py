"""Mean and deviation of neighbours in memory: two passes over them, in whole vectors."""

from __future__ import annotations

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
from tvm_sparse.ops.tensors.axis import elements, flat_view, folded, power_of_two, rows_of, variable

_WIDEST = 4 * LANES
"""Sums side by side: additions of four vectors overlap, one would wait for itself."""

MANY = 32768
"""Elements from which on rows are shared between threads."""

NUMBERS = 3
MEAN, SHIFT, INVERSE = range(NUMBERS)
"""What :func:`moments` returns of each row."""


def moments(x: te.Tensor, width: int, epsilon: float) -> te.Tensor:
    """Return three numbers of each ``width`` neighbours of fp32 elements, ``(rows, 3)``.

    ``MEAN`` and ``SHIFT``, the mean of what is left without it, are together the mean (see
    :class:`.Statistics`); ``INVERSE`` is ``1 / sqrt(var + epsilon)``.
    """

    def numbers(mean: Any, shift: Any, variance: Any) -> list[Any]:
        return numbers_of(mean, shift, variance, epsilon)

    return _of_rows(x, width, numbers, NUMBERS, "moments")


def numbers_of(mean: Any, shift: Any, variance: Any, epsilon: float) -> list[Any]:
    """Return what a row is standardised by."""
    one, least = (tirx.const(value, FLOAT_SUMS) for value in (1, epsilon))
    return [mean, shift, one / tirx.sqrt(variance + least)]


def variances(x: te.Tensor, width: int) -> te.Tensor:
    """Return the variance of each ``width`` neighbours of fp32 elements, ``(rows, 1)``."""
    return _of_rows(x, width, lambda _mean, _shift, variance: [variance], 1, "variances")


def _of_rows(
    x: te.Tensor, width: int, numbers: Callable[[Any, Any, Any], list[Any]], each: int, name: str
) -> te.Tensor:
    """Return ``each`` numbers of a row, made of its mean, shift and variance."""
    size, row = elements(x.shape), _Row(width)
    extents = int64((rows_of(size, width), each))
    count, loop = extents[0], loop_over(size)

    def emit(inputs: list[tirx.Buffer], outputs: list[tirx.Buffer]) -> tirx.PrimFunc:
        with IRBuilder() as builder, loop(0, count) as number:
            source, result = flat_view(inputs[0], size), flat_view(outputs[0], count * each)
            for place, value in enumerate(numbers(*row.emit(source, number * width))):
                result[number * each + place] = value
        return builder.get()

    return te.extern([extents], [x], emit, name=name, dtype=[FLOAT_SUMS])


def loop_over(size: Any) -> Any:
    """Return the loop over ``size`` elements: threads share those of open extents, and many."""
    return T.parallel if not isinstance(size, int) or size >= MANY else T.serial


@dataclass(frozen=True)
class _Row:
    """The code of one row."""

    width: int

    def emit(self, source: Any, first: Any) -> list[Any]:
        """Emit both passes over the row from ``first`` on; return mean, shift and variance."""
        reciprocal = tirx.const(1 / self.width, FLOAT_SUMS)
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
        lanes = power_of_two(min(self.width, _WIDEST))
        whole, rest = divmod(self.width, lanes)
        sums = [variable(FLOAT_SUMS, lanes) for _ in terms]
        with T.vectorized(0, tirx.const(lanes, "int64")) as lane:
            for total, term in zip(sums, terms, strict=True):
                total[lane] = term(source[first + lane])
        with T.serial(1, tirx.const(whole, "int64")) as chunk:
            with T.vectorized(0, tirx.const(lanes, "int64")) as lane:
                for total, term in zip(sums, terms, strict=True):
                    total[lane] = total[lane] + term(source[first + chunk * lanes + lane])
        if rest:
            with T.vectorized(0, tirx.const(lanes, "int64")) as lane:
                new, zero = lane >= lanes - rest, tirx.const(0, FLOAT_SUMS)
                for total, term in zip(sums, terms, strict=True):
                    value = term(source[first + (self.width - lanes) + lane])
                    total[lane] = total[lane] + tirx.Select(new, value, zero)
        return [folded(total, lanes, lambda a, b: a + b) for total in sums]
