"""Largest and smallest elements along axes: a NaN wins, as in PyTorch."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm import te, tirx, topi
from tvm.ir import Expr

from tvm_sparse.ops.ieee import is_float, is_number, negation
from tvm_sparse.ops.marks import int64


def lowest(dtype: str) -> Any:
    """Return what is not larger than any value of ``dtype``."""
    return tirx.const(-math.inf, dtype) if "float" in dtype else tirx.min_value(dtype)


def highest(dtype: str) -> Any:
    """Return what is not smaller than any value of ``dtype``."""
    return tirx.const(math.inf, dtype) if "float" in dtype else tirx.max_value(dtype)


@dataclass(frozen=True)
class Extremum:
    """A direction: ``beats(x, y)`` tells whether ``x`` is the better one, ``worst`` is neutral."""

    beats: Callable[[Any, Any], Any]
    worst: Callable[[str], Any]
    plain: Callable[..., Any]

    def combine(self, found: Any, x: Expr) -> Any:
        """Return the better one of two variables; NaN if one is NaN."""
        if not is_float(x):
            return self.plain(found, x)
        return tirx.Select(is_number(x), tirx.Select(self.beats(x, found), x, found), x)

    def reducer(self) -> Any:
        """Return the reduction over axes."""

        # TVM counts the arguments, and self would be one.
        def combine(x: Expr, y: Expr) -> Any:
            return self.combine(x, y)

        _register()
        return te.comm_reducer(combine, self.worst)

    def first(self, found: Any, x: Expr) -> tuple[Any, Any]:
        """Return the better one of two pairs of position and value, the earlier of equal ones."""
        (i, a), (j, b) = found, x
        alike = tirx.And(a <= b, b <= a)
        better = self.beats(a, b)
        if is_float(a):
            alike = tirx.Or(alike, negation(tirx.Or(is_number(a), is_number(b))))
            better = tirx.Or(better, tirx.And(negation(is_number(a)), is_number(b)))
        keep = tirx.Or(better, tirx.And(alike, i < j))
        return tirx.Select(keep, i, j), tirx.Select(keep, a, b)

    def positions(self) -> Any:
        """Return the reduction of pairs of position and value over axes."""

        def worst(position: str, dtype: str) -> tuple[Any, Any]:
            return tirx.max_value(position), self.worst(dtype)

        def first(x: Expr, y: Expr) -> tuple[Any, Any]:
            return self.first(x, y)

        _register()
        return te.comm_reducer(first, worst)

    def worst_values(self, like: Sequence[Any]) -> list[Any]:
        """Return what is neutral for a value, or for a position and a value, of given types."""
        *position, value = (str(x.ty.dtype) for x in like)
        return [*(tirx.max_value(dtype) for dtype in position), self.worst(value)]


MAX = Extremum(lambda x, y: y < x, lowest, tirx.max)
MIN = Extremum(lambda x, y: x < y, highest, tirx.min)


@functools.cache
def _register() -> None:
    """Tell TVM's schedules that our reductions may be split in partial results.

    TVM's registry lives longer than the interpreter: what it holds must never be deleted.
    """
    register = tvm.get_global_func("s_tir.schedule.RegisterReducer")
    for extremum in (MAX, MIN):
        for buffers, combine, worst in (
            (1, lambda x, y, e=extremum: [e.combine(x[0], y[0])], extremum.worst_values),
            (2, lambda x, y, e=extremum: list(e.first(x, y)), extremum.worst_values),
        ):
            functions = [tvm_ffi.convert(combine), tvm_ffi.convert(worst)]
            for function in functions:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(function))
            register(buffers, *functions)


def reduce(extremum: Extremum, x: te.Tensor, axes: Sequence[int] | None, keepdims: bool) -> Any:
    """Return the extreme elements of ``x`` along ``axes`` (``None``: all)."""
    domain = Reduced(x, axes, keepdims)
    best = extremum.reducer()
    return domain.compute(lambda element, _position, over: best(element, axis=over))


def position(extremum: Extremum, x: te.Tensor, axis: int | None, keepdims: bool, dtype: str) -> Any:
    """Return where along ``axis`` (``None``: in row-major order) the first extreme element is."""
    domain = Reduced(x, None if axis is None else [axis], keepdims)
    best = extremum.positions()
    places, _ = domain.compute(
        lambda element, place, over: best((tirx.Cast(dtype, place), element), axis=over)
    )
    return topi.identity(places)


class Reduced:
    """The reduction of some axes of a tensor."""

    def __init__(self, x: te.Tensor, axes: Sequence[int] | None, keepdims: bool) -> None:
        rank = len(x.shape)
        self.x, self.keepdims = x, keepdims
        self.axes = sorted({int(a) % rank for a in (range(rank) if axes is None else axes)})

    @property
    def shape(self) -> list[Any]:
        """Shape of the result."""
        kept = [1 if a in self.axes else e for a, e in enumerate(self.x.shape)]
        return int64(tuple(e for a, e in enumerate(kept) if self.keepdims or a not in self.axes))

    def compute(self, value: Callable[[Any, Any, list[Any]], Any], name: str = "reduce") -> Any:
        """Return the tensor of ``value(element, its position, reduced axes)``."""
        over = {a: te.reduce_axis((0, self.x.shape[a]), f"k{a}") for a in self.axes}

        def at(*index: Any) -> Any:
            kept = list(index)
            if self.keepdims:
                kept = [i for a, i in enumerate(index) if a not in over]
            full = [over[a].var if a in over else kept.pop(0) for a in range(len(self.x.shape))]
            place: Any = tirx.const(0, "int64")
            for a in self.axes:
                place = place * self.x.shape[a] + over[a].var
            return value(self.x(*full), place, list(over.values()))

        return te.compute(self.shape, at, name=name)
