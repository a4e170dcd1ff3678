"""Softmax, its logarithm, layer norm, sums and positions of extremes over the last axis.

A CPU reduces rows in vectors whatever their extent, the threads of a GPU ``together``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.sym import Analyzer

from tvm_sparse.base.numerics import FLOAT_SUMS, HALVES
from tvm_sparse.machine.vector import LANES
from tvm_sparse.ops.emit import unravel
from tvm_sparse.ops.ieee import equal, is_number, negation
from tvm_sparse.ops.marks import FUSION, OPERATOR, OUT_FUSABLE, REDUCTION, flat, int64
from tvm_sparse.ops.tensors.extrema import Extremum

PARTIAL = "row_partial"
"""Mark of blocks that reduce a row to ``LANES`` partial results."""

WHOLE = "row"
"""Mark of blocks that reduce a row at once."""

RESULT = "normalise"
"""Name of the block that writes the result."""

STORED = ("exp",)
"""Names of blocks that store a value for each element: what costs less is computed at each use."""

TOTALS = ("max", "sum", "spread")
"""Names of blocks that reduce a row's partial results to one."""

TAIL = "_tail"
"""End of the names of blocks that add a row's last, partial vector to its partial results."""

Reducer = tuple[Callable[..., Any], Callable[[Any, Any], Any]]
"""A reduction over axes, and the same of two values."""

SUM: Reducer = (te.sum, lambda a, b: a + b)
LARGEST: Reducer = (te.max, tirx.max)


def softmax(
    shape: tuple[Any, ...], dtype: str, *, together: bool = False, out_dtype: str = ""
) -> tirx.PrimFunc:
    """Return ``f(X, Y)``: ``Y = exp(X - max) / sum(exp(X - max))`` along the last axis."""
    x = te.placeholder(int64(shape), dtype, "X")
    rows = _Rows(tuple(shape[:-1]), shape[-1], together, out_dtype)
    sums = sums_of(dtype)
    largest = rows.reduce(rows.of(x), LARGEST, tirx.min_value(sums), "max")
    shifted = rows.map(lambda r, i: tirx.exp(rows.of(x)(r, i) - largest[r]), "exp")
    total = rows.reduce(_element(shifted), SUM, tirx.const(0, sums), "sum")
    inverse = te.compute(total.shape, lambda *r: tirx.const(1, sums) / total[r], "inverse")
    y = rows.output(x, lambda r, i: shifted[(*r, i)] * inverse[r])
    return _function([x, y])


def log_softmax(
    shape: tuple[Any, ...], dtype: str, *, together: bool = False, out_dtype: str = ""
) -> tirx.PrimFunc:
    """Return ``f(X, Y)``: ``Y = X - max - log(sum(exp(X - max)))`` along the last axis."""
    x = te.placeholder(int64(shape), dtype, "X")
    rows = _Rows(tuple(shape[:-1]), shape[-1], together, out_dtype)
    sums = sums_of(dtype)
    largest = rows.reduce(rows.of(x), LARGEST, tirx.min_value(sums), "max")

    def shifted(row: tuple[Any, ...], i: Any) -> Any:
        return rows.of(x)(row, i) - largest[row]

    total = rows.reduce(lambda r, i: tirx.exp(shifted(r, i)), SUM, tirx.const(0, sums), "sum")
    logarithm = te.compute(total.shape, lambda *r: tirx.log(total[r]), "logarithm")
    y = rows.output(x, lambda r, i: shifted(r, i) - logarithm[r])
    return _function([x, y])


def layer_norm(
    shape: tuple[Any, ...], dtype: str, epsilon: float, *, together: bool = False
) -> tirx.PrimFunc:
    """Return ``f(X, gamma, beta, Y)``: ``Y = (X - mean) / sqrt(var + epsilon) * gamma + beta``.

    ``gamma`` and ``beta`` have the last axis's extent. The variance is that of the centred row:
    two passes, no cancellation.
    """
    extent = int(shape[-1])
    x = te.placeholder(int64(shape), dtype, "X")
    gamma = te.placeholder(int64((extent,)), dtype, "gamma")
    beta = te.placeholder(int64((extent,)), dtype, "beta")
    sums = sums_of(dtype)
    reciprocal, zero = tirx.const(1.0 / extent, sums), tirx.const(0, sums)
    rows = _Rows(tuple(shape[:-1]), extent, together)
    total = rows.reduce(rows.of(x), SUM, zero, "sum")
    centred = rows.map(lambda r, i: rows.of(x)(r, i) - total[r] * reciprocal, "centre")
    spread = rows.reduce(lambda r, i: centred[(*r, i)] * centred[(*r, i)], SUM, zero, "spread")
    inverse = te.compute(
        spread.shape,
        lambda *r: (
            tirx.const(1, sums) / tirx.sqrt(spread[r] * reciprocal + tirx.const(epsilon, sums))
        ),
        "inverse",
    )

    def affine(row: tuple[Any, ...], i: Any) -> Any:
        scale, shift = (_as(sums, vector[i]) for vector in (gamma, beta))
        return centred[(*row, i)] * inverse[row] * scale + shift

    y = rows.output(x, affine)
    return _function([x, gamma, beta, y])


def open_sum(shape: tuple[Any, ...], dtype: str, *, mean: bool = False) -> tirx.PrimFunc:
    """Return ``f(X, Y)``: the sum, or the ``mean``, of each row of open extent, ``(*lead, 1)``."""
    x = te.placeholder(int64(shape), dtype, "X")
    rows = _Rows(tuple(shape[:-1]), shape[-1], together=False)
    total = rows.reduce(rows.of(x), SUM, tirx.const(0, dtype), "sum")

    def result(*index: Any) -> Any:
        found = total[rows.number(index[:-1])]
        return found / shape[-1].astype(dtype) if mean else found

    y = te.compute((*int64(shape[:-1]), tirx.const(1, "int64")), result, RESULT)
    func = te.create_prim_func([x, y]).with_attr(FUSION, REDUCTION)
    return func.with_attr("tirx.noalias", True)


def extreme_position(
    shape: tuple[Any, ...], dtype: str, extremum: Extremum, out_dtype: str
) -> tirx.PrimFunc:
    """Return ``f(X, Y)``: where in each row the first extreme element is, ``(*lead, 1)``.

    Rows are read twice: for their extreme element, and for the first one like it. Where there is a
    NaN, which may pass for any extreme, the first one's position is what counts: NaNs are numbered
    from the smallest integer on, before all others.
    """
    x = te.placeholder(int64(shape), dtype, "X")
    rows = _Rows(tuple(shape[:-1]), shape[-1], together=False)
    nans, none = tirx.min_value("int32"), tirx.max_value("int32")

    def better(a: Any, b: Any) -> Any:  # TVM counts the arguments
        return extremum.plain(a, b)

    over = te.comm_reducer(better, extremum.worst)
    found = rows.reduce(rows.of(x), (over, extremum.plain), extremum.worst(dtype), "max")

    def place(row: tuple[Any, ...], i: Any) -> Any:
        value, position = rows.of(x)(row, i), tirx.Cast("int32", i)
        alike = tirx.Select(equal(value, _as(dtype, found[row])), position, none)
        return tirx.Select(negation(is_number(value)), position + nans, alike)

    first = rows.reduce(place, (te.min, tirx.min), none, "sum")

    def chosen(*index: Any) -> Any:
        number = _as("int32", first[rows.number(index[:-1])])
        return tirx.Cast(out_dtype, tirx.bitwise_and(number, none))

    y = te.compute((*int64(shape[:-1]), tirx.const(1, "int64")), chosen, RESULT)
    return _function([x, y])


def sums_of(dtype: str) -> str:
    """Return what values of ``dtype`` are computed in."""
    return FLOAT_SUMS if dtype in HALVES else dtype


def _as(dtype: str, value: Any) -> Any:
    """Return ``value``, which may be an element of a tensor, as ``dtype``."""
    value = value.asobject() if isinstance(value, te.TensorSlice) else value
    return value if str(value.ty.dtype) == dtype else tirx.Cast(dtype, value)


Element = Callable[[tuple[Any, ...], Any], Any]
"""``(row index, position) -> value``."""


def _element(tensor: Any) -> Element:
    return lambda row, i: tensor[(*row, i)]


@dataclass(frozen=True)
class _Rows:
    """Rows of ``extent`` values, ``LANES`` or more, or open; steps in between number rows.

    Rows are numbered over all leading axes where these are static, so that neighbours run side by
    side whatever the last of these extents; else they keep their axes.
    """

    lead: tuple[Any, ...]
    extent: Any
    together: bool
    out_dtype: str = ""

    @property
    def shape(self) -> list[Any]:
        """Extents of the axes that number rows."""
        static = all(isinstance(e, int) for e in self.lead)
        return int64((math.prod(self.lead),)) if static else int64(self.lead)

    def of(self, x: te.Tensor) -> Element:
        """Return the elements of the input ``x``."""
        sums = sums_of(str(x.dtype))
        if len(self.shape) == len(self.lead):
            return lambda row, i: _as(sums, x[(*row, i)])
        return lambda row, i: _as(sums, x[(*unravel(row[0], self.lead), i)])

    def number(self, lead: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the index of a row among those that steps number."""
        return lead if len(self.shape) == len(lead) else (flat(list(lead), self.lead),)

    def map(self, value: Element, name: str) -> Any:
        """Return the tensor of ``value`` of all elements."""
        return te.compute((*self.shape, self.extent), lambda *i: value(i[:-1], i[-1]), name)

    def output(self, x: te.Tensor, value: Element) -> Any:
        """Return the same with the input's axes."""

        def at(*index: Any) -> Any:
            numbered = self.number(index[:-1])
            return _as(self.out_dtype or str(x.dtype), value(numbered, index[-1]))

        return te.compute(x.shape, at, name=RESULT)

    def reduce(self, element: Element, reducer: Reducer, neutral: Any, name: str) -> Any:
        """Reduce each row by way of ``LANES`` partial results, in whole vectors.

        The last vector of a row that is no whole number of vectors is moved left until it ends
        with the row; lanes that it has in common with its neighbour do not count again. Of a row of
        open extent, elements beyond whole vectors are reduced one by one. Partial results are
        reduced by halves: LLVM makes shuffles of that.
        """
        over, both = reducer
        if self.together:
            k = te.reduce_axis(tuple(int64((0, self.extent))), "k")
            attrs = {OPERATOR: WHOLE}
            return te.compute(
                self.shape, lambda *row: over(element(row, k.var), axis=[k]), name, attrs=attrs
            )
        whole, rest = (_simple(e) for e in (self.extent // LANES, self.extent % LANES))
        step = te.reduce_axis(tuple(int64((0, whole))), "step")

        def partial(*index: Any) -> Any:
            *row, lane = index
            return over(element(tuple(row), step.var * LANES + lane), axis=[step])

        def tail(*index: Any) -> Any:
            *row, lane = index
            last = element(tuple(row), lane + (self.extent - LANES))
            counts = lane >= tirx.const(LANES - rest, "int64")
            return both(parts[index], tirx.Select(counts, last, neutral))

        def few(*row: Any) -> Any:
            return over(element(row, whole * LANES + beyond.var), axis=[beyond])

        shape = (*self.shape, tirx.const(LANES, "int64"))
        parts = te.compute(shape, partial, f"{name}_partial", attrs={OPERATOR: PARTIAL})
        none, static = isinstance(rest, int) and rest == 0, isinstance(self.extent, int)
        full = te.compute(shape, tail, f"{name}{TAIL}") if static and not none else parts
        beyond = te.reduce_axis(tuple(int64((0, rest))), "beyond")
        others = None if static or none else te.compute(self.shape, few, f"{name}_beyond")

        def folded(*row: Any) -> Any:
            values, half = [full[(*row, lane)] for lane in range(LANES)], LANES
            while half > 1:
                half //= 2
                values = [both(values[i], values[i + half]) for i in range(half)]
            return values[0] if others is None else both(values[0], others[row])

        return te.compute(self.shape, folded, name)


def _simple(extent: Any) -> Any:
    """Return an extent, a number where it is one."""
    found = extent if isinstance(extent, int) else Analyzer().simplify(extent)
    return int(found) if isinstance(found, tirx.IntImm) else found


def _function(tensors: list[Any]) -> tirx.PrimFunc:
    func = te.create_prim_func(tensors).with_attr(FUSION, OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)
