"""Rows as bytes, each with a scale of its own: found and used while the row is in cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from tvm import te, tirx, topi
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_sparse.ops.bytes.quantize import Scale, byte_of
from tvm_sparse.ops.tensors.axis import flat_view, folded, power_of_two, variable

MAGNITUDE = "magnitude"
"""The extremum that is the largest absolute value of a row."""

_WIDEST = 64
"""Elements side by side: four registers of AVX-512, so that comparisons overlap."""

_MANY = 32768
"""Elements from which on rows are shared between threads."""

Hold = Callable[[Any], Any]
"""Computes an expression now, and returns what to call its value."""


class Numbers(Protocol):
    """How the numbers of a row are computed, and its elements counted with them."""

    @property
    def extrema(self) -> Sequence[str]:
        """Return what is looked for in a row: ``"max"``, ``"min"`` and :data:`MAGNITUDE`."""

    @property
    def dtypes(self) -> Sequence[str]:
        """Return the types of the results of :meth:`settle`."""

    def settle(self, extrema: Mapping[str, Any], hold: Hold) -> list[Any]:
        """Compute all numbers of a row, and return the results."""

    def steps(self, element: Any) -> Any:
        """Return the steps of an element, with the numbers that were settled last."""


def quantize_rows(x: te.Tensor, scale: Scale, numbers: Numbers) -> list[te.Tensor]:
    """Return the bytes next to the steps of each element, and the results, a number a row.

    These have the shape of ``x`` with a last axis of one. Two passes over a row: its extrema, then
    its bytes. The last vector of a row overlaps the one before it, which changes neither.
    """
    *lead, width = x.shape
    count = topi.utils.prod(lead)
    row = Row(int(width), scale, numbers)
    wide = not isinstance(count, tirx.IntImm) or int(count) * int(width) >= _MANY

    def emit(inputs: Any, outputs: Any) -> Any:
        loop = T.parallel if wide else T.serial
        with IRBuilder() as builder, loop(0, count) as i:
            source, result = (flat_view(b, count * width) for b in (inputs[0], outputs[0]))
            row.emit(source, result, [flat_view(b, count) for b in outputs[1:]], i)
        return builder.get()

    shapes = [list(x.shape), *([*lead, tirx.const(1, "int64")] for _ in numbers.dtypes)]
    made = te.extern(shapes, [x], emit, name="quantize_rows", dtype=[scale.dtype, *numbers.dtypes])
    return made if isinstance(made, list) else [made]


@dataclass(frozen=True)
class Row:
    """The code of one row; the type of its bytes and their zero point are those of ``scale``.

    A row is ``lines`` times ``width`` elements, which lie behind one another.
    """

    width: int
    scale: Scale
    numbers: Numbers
    lines: Any = 1

    def emit(self, source: Any, result: Any, others: list[Any], row: Any) -> None:
        """Emit both passes over the row ``row`` of flat buffers."""
        found = {name: variable(source.dtype, self.lanes) for name in self.numbers.extrema}
        first = row * self.lines * self.width
        with T.vectorized(0, tirx.const(self.lanes, "int64")) as lane:
            for name, best in found.items():
                best[lane] = _seen(name, source[first + lane])
        alone = isinstance(self.lines, int) and self.lines == 1
        with self._vectors(first, behind=1 if alone else 0) as start:
            with T.vectorized(0, tirx.const(self.lanes, "int64")) as lane:
                for name, best in found.items():
                    best[lane] = _better(name, best[lane], _seen(name, source[start + lane]))
        extrema = {
            name: folded(best, self.lanes, partial(_better, name)) for name, best in found.items()
        }
        for buffer, value in zip(others, self.numbers.settle(extrema, _hold), strict=True):
            buffer[row] = value
        with self._vectors(first) as start:
            with T.vectorized(0, tirx.const(self.lanes, "int64")) as lane:
                steps = self.numbers.steps(source[start + lane])
                result[start + lane] = byte_of(steps, self.scale)

    @property
    def lanes(self) -> int:
        """Elements side by side."""
        return power_of_two(min(self.width, _WIDEST))

    @contextmanager
    def _vectors(self, first: Any, behind: int = 0) -> Iterator[Any]:
        """Emit loops over the vectors of a row that begins at ``first``; give where each does."""
        chunks, last = -(-self.width // self.lanes), self.width - self.lanes
        ends = tirx.const(behind, "int64"), tirx.const(chunks, "int64")
        with T.serial(0, self.lines) as line, T.serial(*ends) as chunk:
            place = chunk * self.lanes
            even = self.width % self.lanes == 0
            inside = place if even else tirx.min(place, tirx.const(last, "int64"))
            yield first + line * self.width + inside


def _hold(value: Any) -> Any:
    held = variable(str(value.ty.dtype))
    held[0] = value
    return held[0]


def _seen(name: str, element: Any) -> Any:
    return tirx.abs(element) if name == MAGNITUDE else element


def _better(name: str, a: Any, b: Any) -> Any:
    return tirx.min(a, b) if name == "min" else tirx.max(a, b)
