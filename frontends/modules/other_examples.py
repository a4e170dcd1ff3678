"""Examples of other sizes: a model whose example is a whole number of blocks asks whether it is."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.modules.needed_conditions import MOST
from tvm_sparse.frontends.modules.open_axes import Call, changed_call, inputs_of, open_axes
from tvm_sparse.frontends.modules.untraced import failure_of
from tvm_sparse.frontends.program.asked_conditions import Condition
from tvm_sparse.frontends.program.conditions import failing, least_and_larger
from tvm_sparse.frontends.program.decided_extents import holds_at, size_of
from tvm_sparse.frontends.program.ones import traced_at

_LEAST = 3
"""The least size that stands for the others: PyTorch answers otherwise for one, and perhaps two."""

_TRIED = 2
"""Examples with which a condition does not hold that are tried."""

_NEAR = 256
"""Sizes on each side of the example that are asked whether equalities hold with them."""

_RUN = 12
"""So many of the least sizes, and of those larger than the example, is the model run at to find
them: it may fail at the least ones."""


def examples_of(module: nn.Module, call: Call, shapes: Any) -> Iterator[Call]:
    """Yield ``call``, one whose open axes are one smaller, or larger where need be, and a third.

    In the third every other dimension stays: PyTorch takes two of one size for one.

    A model that pads ``x`` if ``x.shape[1] % 8`` is traced without the padding where the example
    has whole blocks, and is then one for multiples of eight alone. With another example it pads by
    what follows from the extent, which may be nothing. For the arguments see :func:`.open_axes`.
    """
    yield call
    leaves, tree = pytree.tree_flatten(call)
    opened = open_axes(module, call, shapes)
    dims = [dim for own in opened for dim in own.values() if isinstance(dim, Dim)]
    names = list(dict.fromkeys(_root(dim).__name__ for dim in dims))
    for some in (names, names[1::2]):
        moved = [_moved(x, axes, some) for x, axes in zip(leaves, opened, strict=True)]
        if any(new is not old for new, old in zip(moved, leaves, strict=True)):
            args, kwargs = tree.unflatten(moved)
            if failure_of(module, (args, kwargs)) is None:
                yield args, kwargs


def _root(dim: Any) -> Any:
    """Return the dimension that one is a multiple of, or the plain one itself."""
    return getattr(dim, "root", dim)


def _moved(value: Any, axes: dict[int, Any], names: Collection[str]) -> Any:
    """Return a leaf with another size of the dimensions that are called by ``names``."""
    for axis, dim in axes.items():
        if isinstance(dim, Dim) and _root(dim).__name__ in names:
            extent: Any = getattr(dim, "fn", lambda size: size)
            rest = int(extent(0))
            step = int(extent(1)) - rest
            size = _beside(_root(dim), (value.shape[axis] - rest) // step)
            value = _repeated(value, axis, size * step + rest)
    return value


def answering_otherwise(
    module: nn.Module, program: torch.export.ExportedProgram, call: Call, condition: Condition
) -> Iterator[Call]:
    """Yield calls like ``call`` of the least sizes with which ``condition`` does not hold.

    None of their extents is one, which PyTorch would take for a number.

    Parameters
    ----------
    module
        The model; it runs on what is yielded.
    program
        Traced under ``condition`` for a call like ``call``.
    """
    example = traced_at(program)
    rows = failing(condition, program.range_constraints)
    others = (
        row
        for row in rows
        if min(row.values()) >= _LEAST and _elements(program, example | row) <= MOST
    )
    tried = (example | row for row in least_and_larger(others, example, _RUN))
    calls = (changed_call(program, call, functools.partial(_at, sizes=sizes)) for sizes in tried)
    yield from itertools.islice((c for c in calls if failure_of(module, c) is None), _TRIED)


def unequal(
    module: nn.Module,
    program: torch.export.ExportedProgram,
    call: Call,
    conditions: Sequence[Condition],
) -> Iterator[Call]:
    """Yield a call like ``call`` with which no equality holds among ``conditions``, or fewer do.

    A model that pads height and width to whole blocks asks of each axis, at each depth: an example
    that is odd in one place leaves the equalities of the others. Each extent is the nearest to its
    own in ``call``. What is yielded runs; for the arguments see :func:`answering_otherwise`.
    """
    example = traced_at(program)
    wanted = [_without_equality(c) for c in conditions]
    sizes = dict(example)
    for symbol in example:
        own = [w for w in wanted if w is not None and w.free_symbols == {symbol}]
        if own and symbol in program.range_constraints:
            near = _near(program.range_constraints[symbol], example[symbol])
            held = [sum(holds_at(w, {symbol: size}) for w in own) for size in near]
            sizes[symbol] = near[held.index(max(held))]
    if sizes != example and _elements(program, sizes) <= MOST:
        found = changed_call(program, call, functools.partial(_at, sizes=sizes))
        if failure_of(module, found) is None:
            yield found


def _near(limits: Any, size: int) -> list[int]:
    """Return sizes within ``limits``, those next to ``size`` first."""
    low, high = max(_LEAST, int(limits.lower), size - _NEAR), min(limits.upper, size + _NEAR)
    return [size, *sorted(range(low, int(high) + 1), key=lambda other: abs(other - size))]


def _without_equality(condition: Condition) -> Any:
    """Return what says that two extents differ where ``condition`` says they do, or do not."""
    found = condition.expression
    if isinstance(found, sympy.Eq):
        return sympy.Ne(*found.args)
    return found if isinstance(found, sympy.Ne) else None


def _elements(program: torch.export.ExportedProgram, sizes: Mapping[Any, int]) -> int:
    """Return the elements of the largest input at ``sizes``."""
    shapes = (getattr(node.meta.get("val"), "shape", ()) for node in inputs_of(program))
    return max(math.prod(size_of(extent, sizes) for extent in shape) for shape in shapes)


def _at(value: Any, traced: Any, *, sizes: Mapping[Any, int]) -> Any:
    """Return a leaf with the shape of its ``traced`` tensor at ``sizes``."""
    if isinstance(value, torch.Tensor):
        for axis, extent in enumerate(traced.shape):
            value = _repeated(value, axis, size_of(extent, sizes))
    return value


def _repeated(value: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """Return ``value``, repeated or cut to ``size`` along ``axis``."""
    return value.index_select(axis, torch.arange(size, device=value.device) % value.shape[axis])


def _beside(dim: Any, size: int) -> int:
    """Return a size of ``dim`` next to ``size``; this one if there is none."""
    if size - 1 >= max(dim.min, _LEAST):
        return size - 1
    return size + 1 if size < dim.max else size
