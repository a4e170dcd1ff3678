"""Tensors less their mean, by their standard deviation, in two passes: no cancellation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.ieee import subtract
from tvm_sparse.ops.marks import flat, int64
from tvm_sparse.ops.tensors.axis import elements
from tvm_sparse.ops.tensors.column_moments import Columns
from tvm_sparse.ops.tensors.moments import INVERSE, MEAN, SHIFT, Rows

Index = tuple[Any, ...]
Affine = Callable[[Any, Index], Any]
"""What becomes of a standardised element at an index."""


@dataclass(frozen=True)
class Statistics:
    """Mean and variance of ``x`` over ``axes``, and over ``grouped`` neighbours along ``axis``.

    They are sums in fp32, those of fp64 in fp64. The second pass takes the mean of what is
    left of the first one as well (Chan, Golub and LeVeque, "Algorithms for Computing the Sample
    Variance" (1983), equation 1.7): however far the mean is from zero, it is exact to a fraction
    of the standard deviation.
    """

    x: Any
    axes: tuple[int, ...]
    axis: int = -1
    grouped: int = 1

    @property
    def sums(self) -> str:
        """Type of the sums."""
        return "float64" if str(self.x.dtype) == "float64" else FLOAT_SUMS

    @staticmethod
    def of(x: te.Tensor, axes: Sequence[Any], axis: int = -1, groups: int = 0) -> Statistics:
        """Return statistics over ``axes``, for ``groups`` parts of ``axis`` unless it is zero."""
        rank = len(x.shape)
        grouped = int(x.shape[axis]) // groups if groups else 1
        return Statistics(x, tuple(sorted(int(a) % rank for a in axes)), axis % rank, grouped)

    def rows(self) -> Rows | None:
        """Return the elements that share a place as rows, if they lie side by side in fp32.

        How many rows there are may be open, and how long they are.
        """
        shape = self._shape()
        longer = _longer(shape)
        whole = bool(shape) and self.grouped == shape[self.axis]
        inner = [a for a in longer if a in self.axes or (whole and a == self.axis)]
        kept = [a for a in longer if a not in inner]
        apart = self.grouped > 1 and not whole
        if not shape or longer != kept + inner or (apart and kept[-1] != self.axis):
            return None
        parts = [self.grouped if apart else 1, *(shape[a] for a in inner)]
        before = [shape[a] // self.grouped if self._splits(a) else shape[a] for a in kept]
        return Rows(elements(before), elements(parts))

    def columns(self) -> Columns | None:
        """Return the same where groups of channels, in whole vectors, lie behind all positions."""
        shape = self._shape()
        longer = _longer(shape)
        inner = [a for a in longer if a in self.axes]
        kept = [a for a in longer if a not in inner and a != self.axis]
        if not inner or longer != [*kept, *inner, self.axis] or shape[self.axis] % LANES:
            return None
        images, positions = (elements([shape[a] for a in axes]) for axes in (kept, inner))
        return Columns(images, positions, shape[self.axis], self.grouped)

    def _shape(self) -> tuple[Any, ...]:
        """Return the extents, of fp32, if that of the channels is known."""
        shape = tuple(int(n) if isinstance(n, tirx.IntImm) else n for n in self.x.shape)
        known = self.axis in self.axes or isinstance(shape[self.axis], int)
        return shape if known and str(self.x.dtype) == FLOAT_SUMS else ()

    def place(self, index: Index) -> Index:
        """Return the index, in the statistics, of those of the element at ``index``."""
        kept = [(a, i) for a, i in enumerate(index) if a not in self.axes]
        return tuple(i // self.grouped if self._splits(a) else i for a, i in kept)

    def _splits(self, axis: int) -> bool:
        return axis == self.axis and self.grouped > 1

    def _sum(self, value: Callable[[Any, Index], Any], name: str) -> Any:
        """Sum ``value(element, place)`` over everything that has the same place."""
        shape = list(self.x.shape)
        extents = {a: shape[a] for a in self.axes}
        if self.grouped > 1:
            extents[self.axis] = self.grouped
            shape[self.axis] = shape[self.axis] // self.grouped
        over = {a: te.reduce_axis((0, e), f"k{a}") for a, e in sorted(extents.items())}

        def at(*place: Any) -> Any:
            rest, index = list(place), []
            for a in range(len(shape)):
                i: Any = over[a].var if a in self.axes else rest.pop(0)
                index.append(i * self.grouped + over[a].var if self._splits(a) else i)
            element = self.x(*index).astype(self.sums)
            return te.sum(value(element, place), axis=list(over.values()))

        kept = int64(tuple(e for a, e in enumerate(shape) if a not in self.axes))
        return te.compute(kept, at, name=name)

    def standardised(self, epsilon: float, name: str, affine: Affine) -> Any:
        """Return the tensor of ``affine((x - mean) / sqrt(var + epsilon), index)``."""
        total = self._sum(lambda e, _: e, f"{name}_sum")
        reciprocal = tirx.const(1, self.sums) / self._count().astype(self.sums)
        mean = te.compute(total.shape, lambda *p: total(*p) * reciprocal, name=f"{name}_mean")
        rest = self._sum(lambda e, p: subtract(e, mean(*p)), f"{name}_rest")
        squares = self._sum(
            lambda e, p: subtract(e, mean(*p)) * subtract(e, mean(*p)), f"{name}_squares"
        )
        shift = te.compute(total.shape, lambda *p: rest(*p) * reciprocal, name=f"{name}_shift")

        def factor(*p: Any) -> Any:
            variance = subtract(squares(*p) * reciprocal, shift(*p) * shift(*p))
            return tirx.const(1, self.sums) / tirx.sqrt(variance + tirx.const(epsilon, self.sums))

        inverse = te.compute(total.shape, factor, name=f"{name}_inverse")

        def numbers(index: Index) -> Sequence[Any]:
            place = self.place(index)
            return mean(*place), shift(*place), inverse(*place)

        return self._scaled(numbers, name, affine)

    def by_rows(self, found: te.Tensor, name: str, affine: Affine) -> Any:
        """Return the same by what :func:`~tvm_sparse.ops.tensors.moments.moments` found."""
        shape = [extent for a, extent in enumerate(self.x.shape) if a not in self.axes]
        if self.grouped > 1:
            shape[-1] //= self.grouped

        def numbers(index: Index) -> Sequence[Any]:
            row = flat(list(self.place(index)), tuple(shape))
            return [found(row, number) for number in (MEAN, SHIFT, INVERSE)]

        return self._scaled(numbers, name, affine)

    def by_columns(self, found: te.Tensor, name: str, affine: Affine) -> Any:
        """Return the same by what :func:`.column_moments` found."""
        kept = [a for a in range(len(self.x.shape)) if a not in self.axes]
        shape = tuple(self.x.shape[a] for a in kept)

        def numbers(index: Index) -> Sequence[Any]:
            column = flat([index[a] for a in kept], shape)
            return [found(number, column) for number in (MEAN, SHIFT, INVERSE)]

        return self._scaled(numbers, name, affine)

    def _scaled(self, numbers: Callable[[Index], Sequence[Any]], name: str, affine: Affine) -> Any:
        """Return each element less mean and shift, by the inverse of its deviation."""

        def at(*index: Any) -> Any:
            mean, shift, inverse = numbers(index)
            centred = subtract(subtract(self.x(*index).astype(self.sums), mean), shift)
            return affine(centred * inverse, index).astype(str(self.x.dtype))

        return te.compute(self.x.shape, at, name=name)

    def _count(self) -> Any:
        count: Any = tirx.const(self.grouped, "int64")
        for axis in self.axes:
            count = count * self.x.shape[axis]
        return count


def _longer(shape: Sequence[Any]) -> list[int]:
    """Return the axes that are longer than one, or open."""
    return [a for a, extent in enumerate(shape) if not (isinstance(extent, int) and extent == 1)]
