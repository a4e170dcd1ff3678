"""Softmax and layer norm over the last axis, reduced in vectors whatever its extent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import te, tirx

from tvm_sparse.ops.marks import KIND, OUT_FUSABLE, int64

LANES = 16
KIND_PARTIAL = "row_partial"
"""Mark of blocks that reduce a row to ``LANES`` partial results."""


def softmax(shape: tuple[Any, ...], dtype: str) -> tirx.PrimFunc:
    """Return ``f(X, Y)``: ``Y = exp(X - max) / sum(exp(X - max))`` along the last axis."""
    x = te.placeholder(int64(shape), dtype, "X")
    row = _Row(int(shape[-1]))
    largest = row.reduce(row.vectors(x, lambda v, i: v, ""), te.max, tirx.min_value(dtype), "max")
    shifted = row.vectors(x, lambda v, i: tirx.exp(v - largest[i]), "exp")
    total = row.reduce(shifted, te.sum, tirx.const(0, dtype), "sum")
    inverse = te.compute(total.shape, lambda *i: tirx.const(1, dtype) / total[i], "inverse")
    y = te.compute(x.shape, lambda *i: row.element(shifted, i) * inverse[i[:-1]], name="normalise")
    return _function([x, y])


def layer_norm(shape: tuple[Any, ...], dtype: str, epsilon: float) -> tirx.PrimFunc:
    """Return ``f(X, gamma, beta, Y)``: ``Y = (X - mean) / sqrt(var + epsilon) * gamma + beta``.

    ``gamma`` and ``beta`` have the last axis's extent. The variance is that of the centred row:
    two passes, no cancellation.
    """
    extent = int(shape[-1])
    x = te.placeholder(int64(shape), dtype, "X")
    gamma = te.placeholder(int64((extent,)), dtype, "gamma")
    beta = te.placeholder(int64((extent,)), dtype, "beta")
    share, zero, row = tirx.const(1.0 / extent, dtype), tirx.const(0, dtype), _Row(extent)
    total = row.reduce(row.vectors(x, lambda v, i: v, ""), te.sum, zero, "sum")
    centred = row.vectors(x, lambda v, i: v - total[i] * share, "centre")
    squares = te.compute(centred.shape, lambda *i: centred[i] * centred[i], "square")
    spread = row.reduce(squares, te.sum, zero, "spread")
    inverse = te.compute(
        spread.shape,
        lambda *i: tirx.const(1, dtype) / tirx.sqrt(spread[i] * share + tirx.const(epsilon, dtype)),
        "inverse",
    )

    def value(*i: Any) -> Any:
        return row.element(centred, i) * inverse[i[:-1]] * gamma[i[-1]] + beta[i[-1]]

    return _function([x, gamma, beta, te.compute(x.shape, value, "normalise")])


@dataclass(frozen=True)
class _Row:
    """A row of ``extent`` (at least ``LANES``) values, seen as whole vectors.

    The last vector of a row that is no whole number of vectors is moved left until it ends with
    the row; reductions skip the lanes that it has in common with its neighbour.
    """

    extent: int

    @property
    def steps(self) -> int:
        return math.ceil(self.extent / LANES)

    def start(self, step: Any) -> Any:
        """Return the position of a vector's first lane."""
        if self.extent % LANES == 0:
            return step * LANES
        return tirx.min(step * LANES, tirx.const(self.extent - LANES, "int64"))

    def vectors(self, x: Any, value: Callable[[Any, tuple[Any, ...]], Any], name: str) -> Any:
        """Return ``value(element, row index)`` as ``(..., steps, LANES)``."""

        def at(*index: Any) -> Any:
            *lead, step, lane = index
            return value(x[(*lead, self.start(step) + lane)], tuple(lead))

        return te.compute((*x.shape[:-1], self.steps, LANES), at, name or "vectors")

    def element(self, vectors: Any, index: tuple[Any, ...]) -> Any:
        """Return the element of ``vectors`` that stands at position ``index[-1]`` of the row."""
        step = index[-1] // LANES
        return vectors[(*index[:-1], step, index[-1] - self.start(step))]

    def reduce(self, vectors: Any, reducer: Any, neutral: Any, name: str) -> Any:
        """Reduce ``(..., steps, LANES)`` to ``(...)`` by way of ``LANES`` partial results."""
        lead = tuple(vectors.shape[:-2])
        step = te.reduce_axis((0, self.steps), "step")

        def partial(*index: Any) -> Any:
            *row, lane = index
            element = vectors[(*row, step.var, lane)]
            if self.extent % LANES:
                fresh = self.start(step.var) + lane >= step.var * LANES
                element = tirx.Select(fresh, element, neutral)
            return reducer(element, axis=[step])

        attrs = {KIND: KIND_PARTIAL}
        parts = te.compute((*lead, LANES), partial, f"{name}_partial", attrs=attrs)
        lane = te.reduce_axis((0, LANES), "lane")
        return te.compute(lead, lambda *i: reducer(parts[(*i, lane.var)], axis=[lane]), name)


def _function(tensors: list[Any]) -> tirx.PrimFunc:
    func = te.create_prim_func(tensors).with_attr("op_pattern", OUT_FUSABLE)
    return func.with_attr("tirx.noalias", True)
