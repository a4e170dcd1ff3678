"""Open extents that an operator makes a number of, after PyTorch found that they may stay open."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch.fx.experimental import _config as fx_config
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from tvm_sparse.errors import UnsupportedError
from tvm_sparse.frontends.program.operator_names import operator_name

_NEAR = 40
"""Sizes at each end of a range that a condition is asked with."""

_DRAWN = 60
"""Combinations of sizes that a condition of several extents is asked with."""

_FAR = 1 << 20
"""The largest size that is asked of an extent without an upper bound."""

FARTHEST = 4096
"""The largest size that is run: a piece ``x[1:2]`` is one for all of them."""

_RUN = 2
"""So many of the first and of the last sizes with which strides are others are run."""


def layouts_undecided() -> Any:
    """Return a context in which an open extent is taken for another one than one.

    PyTorch asks that when it lays out memory, which no result depends on.
    """
    return fx_config.patch(backed_size_oblivious=True)  # type: ignore[attr-defined]


def opened_in(program: torch.export.ExportedProgram) -> list[torch.SymInt]:
    """Return the open extents of what ``program`` is called with, in order, each where it is."""
    values = (node.meta.get("val") for node in program.graph.find_nodes(op="placeholder"))
    extents = itertools.chain.from_iterable(getattr(value, "shape", ()) for value in values)
    return [extent for extent in extents if isinstance(extent, torch.SymInt)]


def environments_of(program: torch.export.ExportedProgram) -> list[Any]:
    """Return where PyTorch keeps what it knows of the open extents of ``program``."""
    found = [extent.node.shape_env for extent in opened_in(program)]
    return list({id(environment): environment for environment in found}.values())


class OpenExtents:
    """The open extents of a program, and the conditions on them that it was traced under.

    What is done with the program afterwards may ask how large an extent is. PyTorch then answers
    with the size of the example, and notes a condition that nobody reads. This class reads it.
    """

    def __init__(
        self,
        program: torch.export.ExportedProgram,
        *,
        read: bool = True,
        compared: bool = False,
        known: Collection[Any] = (),
    ) -> None:
        """Take the conditions that ``program`` was traced under as ``read``, or as new ones.

        Where results will be ``compared``, a condition on strides may fail: ``otherwise`` has the
        sizes of each symbol with which one does. Those that are ``known`` may fail, too.
        """
        self._known = known
        self.otherwise: dict[Any, set[int]] = {}
        self._compared = compared
        self._environments = environments_of(program)
        self._extents = _extents(program)
        self._symbols = set().union(*(extent.free_symbols for extent in self._extents))
        self._ranges = dict(program.range_constraints)
        self._read = [len(e.guards) if read else 0 for e in self._environments]

    def watched(self, table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
        """Return a table of decompositions of which each is followed by :meth:`check`."""
        if not self._environments:
            return dict(table)
        return {operator: self._watched(operator, one) for operator, one in table.items()}

    def _watched(self, operator: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.check(f"operator '{operator_name(operator)}'")
            return result

        return wrapped

    def check(self, where: str) -> None:
        """Refuse conditions that are new and do not hold at every size.

        Raises
        ------
        UnsupportedError
            There is one. The message names ``where``.
        """
        if not self.holds():
            raise _decided(where)

    def compare(self, agree: Callable[[Mapping[Any, int]], bool]) -> None:
        """Refuse what does not ``agree`` at sizes with which a condition on strides fails.

        Conditions that are asked from here on have to hold.

        Raises
        ------
        UnsupportedError
            Results differ at some size.
        """
        rows = ({s: size} for s, sizes in self.otherwise.items() for size in ends_of(sizes, _RUN))
        if not all(map(agree, rows)):
            raise _decided("an operator")
        self._compared = False

    def holds(self) -> bool:
        """Whether the conditions that are new hold at every size; they are not new any more.

        Sizes that make an extent inside of the program one are left out: PyTorch asks for those
        when it lays out memory. Two extents that have to be equal become one, which calls check.
        """
        every = zip(self._environments, self._read, strict=True)
        new = [guard.expr for environment, read in every for guard in environment.guards[read:]]
        self._read = [len(environment.guards) for environment in self._environments]
        return all(self._holds(condition) for condition in dict.fromkeys(new))

    def _holds(self, condition: Any) -> bool:
        if condition in self._known or _is_unlike_one(condition) or self._joins(condition):
            return True
        joined = self._joined(condition).items()
        condition = condition.xreplace({s: new for s, new in joined if self._stands(s, new)})
        symbols = sorted(condition.free_symbols, key=str)
        sizes = [sizes_in(self._ranges.get(symbol)) for symbol in symbols]
        rows = [dict(zip(symbols, row, strict=True)) for row in _rows(sizes)]
        failed = [row for row in rows if not holds_at(condition, row) and not self._has_one(row)]
        if failed and self._compared and _is_of_strides(condition) and len(symbols) == 1:
            self.otherwise.setdefault(symbols[0], set()).update(row[symbols[0]] for row in failed)
            return True
        return not failed

    def _joins(self, condition: Any) -> bool:
        """Whether it says no more than that two extents are equal: PyTorch then has one of them."""
        renamed = self._joined(condition)
        plain = all(new.is_Symbol for new in renamed.values())
        return plain and bool(condition.xreplace(renamed) == sympy.true)

    def _joined(self, condition: Any) -> dict[Any, Any]:
        """Return what PyTorch has in the place of each symbol since it has joined extents."""
        return {
            symbol: functools.reduce(lambda found, e: e.replace(found), self._environments, symbol)
            for symbol in condition.free_symbols
        }

    def _stands(self, symbol: Any, replaced: Any) -> bool:
        """Whether a condition on ``replaced`` says what one on ``symbol`` does.

        A number stands for an argument that is one: PyTorch names these as it does extents.
        """
        return bool(replaced.is_Symbol or (replaced.is_number and symbol not in self._symbols))

    def _has_one(self, sizes: dict[Any, int]) -> bool:
        known = (e for e in self._extents if e.free_symbols <= sizes.keys())
        return any(_extent_at(extent, sizes) <= 1 for extent in known)


class DecidedExtentError(UnsupportedError):
    """An operator asks how large an open extent is, and what it then does fits that size alone."""


def _decided(where: str) -> DecidedExtentError:
    return DecidedExtentError(
        "model",
        f"{where} makes a number of an extent that is open",
        "operators whose number of steps does not follow from an open extent",
        "give this extent one size, or write the layer with other operators",
    )


def _is_unlike_one(condition: Any) -> bool:
    """Whether it says that a number is not zero, or not one: what is written serves these too.

    PyTorch leaves out a factor of one: ``if alpha != 1: y = alpha * y``.
    """
    unequal = type(condition).__name__ == "Unequality"
    return unequal and any(part.is_number and float(part) in {0.0, 1.0} for part in condition.args)


def _is_of_strides(condition: Any) -> bool:
    """Whether two strides differ: memory is laid out in another way, or copied, where they do not.

    PyTorch multiplies ``max(1, n)`` to strides.
    """
    largest = [e for e in sympy.preorder_traversal(condition) if type(e).__name__ == "Max"]
    unequal = type(condition).__name__ == "Unequality"
    return unequal and any(sympy.S.One in one.args for one in largest)


def value_of(expression: Any, sizes: Mapping[Any, int]) -> Any:
    """Return an extent, or a condition on extents, for ``sizes`` of the symbols."""
    try:
        return sympy_interp(PythonReferenceAnalysis, dict(sizes), expression)
    except AssertionError:  # of a largest number of which one is a constant
        return expression.subs(sizes)


def holds_at(condition: Any, sizes: Mapping[Any, int]) -> bool:
    """Whether a condition on extents is true for ``sizes``; one that has no answer is not."""
    try:
        return bool(value_of(condition, sizes))
    except (ZeroDivisionError, TypeError, ValueError):
        return False


def _extent_at(extent: Any, sizes: Mapping[Any, int]) -> float:
    """Return an extent for ``sizes``; infinity where it is a quotient by zero."""
    try:
        return int(value_of(extent, sizes))
    except ZeroDivisionError:
        return math.inf


def _extents(program: torch.export.ExportedProgram) -> list[Any]:
    """Return every open extent of a tensor of ``program``, each once."""
    values = (node.meta.get("val") for node in program.graph.nodes)
    shapes = (v.shape for v in values if isinstance(v, torch.Tensor))
    every: Iterable[Any] = itertools.chain.from_iterable(shapes)
    opened = (extent.node.expr for extent in every if isinstance(extent, torch.SymInt))
    return list(dict.fromkeys(opened))


def _rows(sizes: Sequence[Sequence[int]]) -> Any:
    """Return combinations of sizes: each size of a lone extent, some of several ones."""
    if len(sizes) == 1:
        return ((size,) for size in sizes[0])
    draw = random.Random(0)
    ends = itertools.product(*((row[0], row[-1]) for row in sizes))
    drawn = (tuple(draw.choice(row) for row in sizes) for _ in range(_DRAWN))
    return itertools.chain(ends, drawn)


def sizes_in(limits: Any) -> list[int]:
    """Return sizes in a range as PyTorch notes it: all near its ends, powers of two between."""
    low = 1 if limits is None else max(1, int(limits.lower))
    bounded = limits is not None and limits.upper.is_Integer
    high = min(int(limits.upper), _FAR) if bounded else _FAR
    near = {*range(low, low + _NEAR), *range(high - _NEAR, high + 1), *(1 << k for k in range(20))}
    return sorted(size for size in near if low <= size <= high)


def solutions(program: torch.export.ExportedProgram, symbol: Any, wanted: int) -> list[int]:
    """Return sizes of ``symbol`` with which an extent inside of ``program`` is ``wanted``.

    Extents of several symbols are left out.
    """
    alone = [extent for extent in _extents(program) if extent.free_symbols == {symbol}]
    return [
        size
        for size in sizes_in(program.range_constraints.get(symbol))
        if any(_extent_at(extent, {symbol: size}) == wanted for extent in alone)
    ]


def ends_of(sizes: Iterable[int], count: int) -> list[int]:
    """Return the first and the last ``count`` of the sizes that a model is still run with."""
    run = sorted(size for size in sizes if size <= FARTHEST)
    return list(dict.fromkeys(run[:count] + run[-count:]))


def size_of(extent: Any, sizes: Mapping[Any, int]) -> int:
    """Return an extent of a traced tensor for ``sizes`` of the symbols."""
    return extent if isinstance(extent, int) else int(value_of(extent.node.expr, sizes))
