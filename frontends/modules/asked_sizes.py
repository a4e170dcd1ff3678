"""Export of what PyTorch cannot prove for every size: its conditions are asked at the sizes."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import fx, nn
from torch.export import Dim
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.kept_state import kept_state
from tvm_sparse.frontends.modules.open_axes import Call, inputs_of, open_axes
from tvm_sparse.frontends.modules.untraced import failure_of
from tvm_sparse.frontends.program.agreement import check_close
from tvm_sparse.frontends.program.asked_conditions import AskedConditions, Condition
from tvm_sparse.frontends.program.copied_slices import CopiedSlices
from tvm_sparse.frontends.program.decided_extents import (
    OpenExtents,
    ends_of,
    holds_at,
    layouts_undecided,
    solutions,
)
from tvm_sparse.frontends.program.ones import Shapes, traced_at

_LOWEST = 3
"""So many of the smallest sizes are always run."""

_ENDS = 4
"""So many of the sizes that make an extent one are run, the first ones and the last ones."""

_RAISED = (2, 3, 4)
"""Least sizes that are tried where the model is another one, or none, for smaller ones."""


def exported_at_sizes(
    module: nn.Module, call: Call, shapes: Any, asked: AskedConditions
) -> torch.export.ExportedProgram | None:
    """Export with the extents that ``shapes`` opens, or return None where a size is an exception.

    PyTorch refuses a model where it cannot prove a condition: ``n // 2 <= n``. It refuses sizes
    with which an extent inside the model is one, since it would lay out memory in another way. Here
    every condition is asked at the sizes of its range. The program is compared with the model at
    those that make some extent one, or two strides equal. Where that is so from two or three on
    alone, and no least size is given, the program begins there. What code of the model asks is
    left to the caller: the program is not compared where the answer is another one.

    Parameters
    ----------
    module
        What :func:`torch.export.export` refuses.
    call
        Its positional and keyword arguments.
    shapes
        By argument: axes and their :class:`torch.export.Dim`.
    asked
        Entered; what it has found when this returns is what code of the model asked.

    Raises
    ------
    InputError
        The least size that is given is too small; the message says which one is not.
    """
    axes = _axes(module, call, shapes)
    if axes is None:
        return None
    automatic = pytree.tree_map_only(Dim, lambda _: Dim.AUTO, shapes, is_leaf=_is_dim)
    slices = CopiedSlices()
    program = _automatic(module, call, automatic, slices)
    if program is not None and slices.has_copied and _writes(program):  # perhaps into a copy
        asked.forget()
        program = _automatic(module, call, automatic, contextlib.nullcontext())
    if program is None:
        return None
    dims = _dims(program, axes)
    if dims is None:
        return None
    proven = _proven(module, program, call, axes, dims)
    for least in _leasts(dims, proven, traced_at(program)):
        for symbol, dim in dims.items():
            high = int_oo if dim.max >= int_oo else dim.max
            program.range_constraints[symbol] = ValueRanges(least[symbol], high)
        whole = OpenExtents(program, read=False, compared=True, known=asked.guards)
        told = _told(program, dims, whole, asked.found)
        if whole.holds() and _same(module, program, call, axes, told):
            _refuse_raised(module, dims, least)
            return program
    return None


def _leasts(
    dims: Mapping[Any, Any], proven: Mapping[Any, int], example: Mapping[Any, int]
) -> Iterator[dict[Any, int]]:
    """Yield the least size of each symbol: what its dimension says, or a little more.

    The last one that is tried is ``proven``, below which the model does not run.
    """
    least = {symbol: max(1, dim.min) for symbol, dim in dims.items()}
    yield least
    for symbols in [[symbol] for symbol in dims] + ([list(dims)] if len(dims) > 1 else []):
        for sizes in [dict.fromkeys(symbols, size) for size in _RAISED] + [proven]:
            raised = {symbol: max(sizes[symbol], least[symbol]) for symbol in symbols}
            if raised.items() - least.items() and all(raised[s] <= example[s] for s in raised):
                yield least | raised


def _proven(
    module: nn.Module, program: Any, call: Call, axes: list[dict[int, Any]], dims: Mapping[Any, Any]
) -> dict[Any, int]:
    """Return the least size of each symbol with which the model runs; one, where that is small.

    It is searched by halves below the one that PyTorch proves: this has two where one will do.
    """
    found = dict.fromkeys(dims, 1)
    for symbol, dim in dims.items():
        fails = functools.partial(_fails, module, call, axes, dim)
        low, high = 0, int(program.range_constraints[symbol].lower)
        if high <= _RAISED[-1]:
            continue
        if fails(high - 1):
            low = high - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fails(middle) else (low, middle)
        found[symbol] = high
    return found


def _fails(module: nn.Module, call: Call, axes: list[dict[int, Any]], dim: Any, size: int) -> bool:
    """Whether the model does not run with the axes that are ``dim`` at ``size``."""
    leaves, tree = pytree.tree_flatten(call)
    resized = [
        _resized(x, {axis: size for axis, one in own.items() if one.__name__ == dim.__name__})
        for x, own in zip(leaves, axes, strict=True)
    ]
    args, named = tree.unflatten(resized)
    return failure_of(module, (args, named)) is not None


def _refuse_raised(module: nn.Module, dims: Mapping[Any, Any], least: Mapping[Any, int]) -> None:
    """Refuse a least size that was given and is too small; one that was not given is found."""
    for symbol, dim in dims.items():
        if 1 <= dim.min < least[symbol]:
            high = "" if dim.max >= int_oo else f", max={dim.max}"
            raise InputError(
                f"model '{type(module).__name__}'",
                f"cannot leave these extents open (where {dim.__name__} is {dim.min}, it is another"
                " model, or does not run)",
                "a range of sizes for which it is one program",
                f"pass torch.export.Dim('{dim.__name__}', min={least[symbol]}{high})",
            )


def _automatic(module: nn.Module, call: Call, shapes: Any, mode: Any) -> Any:
    """Return what PyTorch exports while ``mode`` is entered, None where it refuses."""
    with layouts_undecided(), mode, kept_state(module):
        try:
            return torch.export.export(module, *call, dynamic_shapes=shapes)
        except Exception:
            return None


def _writes(program: torch.export.ExportedProgram) -> bool:
    """Whether an operator of ``program`` changes a tensor."""
    schemas = (getattr(node.target, "_schema", None) for node in program.graph.nodes)
    return any(schema is not None and schema.is_mutable for schema in schemas)


def _is_dim(value: Any) -> bool:
    return isinstance(value, Dim)


def _axes(module: nn.Module, call: Call, shapes: Any) -> list[dict[int, Any]] | None:
    """Return the open axes of each leaf of ``call``, None if they are no plain dimensions."""
    found = open_axes(module, call, shapes)
    dims = [dim for own in found for dim in own.values()]
    plain = all(_is_dim(dim) and not hasattr(dim, "root") for dim in dims)
    return found if dims and plain else None


def _dims(program: Any, axes: list[dict[int, Any]]) -> dict[Any, Any] | None:
    """Return the dimension of each symbol; None where an extent became a number, or two are one.

    Axes with one dimension have one symbol from here on.
    """
    nodes = inputs_of(program)
    if len(nodes) != len(axes):
        return None
    pairs = [
        (node.meta["val"].shape[axis], dim)
        for node, own in zip(nodes, axes, strict=True)
        for axis, dim in own.items()
    ]
    firsts: dict[str, Any] = {}
    if not all(firsts.setdefault(dim.__name__, extent) == extent for extent, dim in pairs):
        return None
    found: dict[Any, Any] = {}
    for extent, dim in pairs:
        expr = getattr(getattr(extent, "node", None), "expr", None)
        if expr is None or not expr.is_Symbol:
            return None
        if found.setdefault(expr, dim).__name__ != dim.__name__:
            return None
    return found


def _same(
    module: nn.Module,
    program: Any,
    call: Call,
    axes: list[dict[int, Any]],
    told: Iterable[tuple[Mapping[str, int], Mapping[Any, int]]],
) -> bool:
    """Whether ``program`` gives what ``module`` gives at all sizes that are ``told``."""
    traced = program.module(check_guards=False)
    leaves, tree = pytree.tree_flatten(call)
    for sizes, values in told:
        inputs = [
            _resized(x, {a: sizes[d.__name__] for a, d in own.items()})
            for x, own in zip(leaves, axes, strict=True)
        ]
        args, named = tree.unflatten(inputs)
        try:
            with kept_state(module):
                wanted = module(*args, **named)
            found = _run(traced, values, (args, named))
            check_close(found, wanted)
        except Exception:
            return False
    return True


def _run(traced: fx.GraphModule, values: Mapping[Any, int], call: Any) -> Any:
    placed = pytree.tree_leaves(call)
    return traced.graph.process_outputs(
        Shapes(traced, values).run(*placed, enable_io_processing=False)
    )


def _told(
    program: Any, dims: Mapping[Any, Any], whole: OpenExtents, asked: Sequence[Condition]
) -> Iterator[tuple[dict[str, int], dict[Any, int]]]:
    """Yield sizes by the names of dimensions, and by symbols.

    These are the smallest ones, those that make an extent one, or lay out memory in another way,
    without those with which what is ``asked`` has another answer.
    """
    columns = {}
    for symbol, dim in dims.items():
        low = int(program.range_constraints[symbol].lower)
        lowest = [size for size in range(low, low + _LOWEST) if size <= dim.max]
        ones, otherwise = solutions(program, symbol, 1), whole.otherwise.get(symbol, ())
        run = [*lowest, *ends_of(ones, _ENDS), *ends_of(otherwise, _ENDS)]
        columns[symbol] = list(dict.fromkeys(run))
    for row in itertools.zip_longest(*columns.values()):
        pairs = zip(columns, row, strict=True)
        values = {n: columns[n][-1] if size is None else size for n, size in pairs}
        if all(holds_at(condition.expression, values) for condition in asked):
            yield {dims[symbol].__name__: size for symbol, size in values.items()}, values


def _resized(x: Any, sizes: Mapping[int, int]) -> Any:
    """Return a tensor of values of ``x``, repeated or cut to ``sizes`` by axis."""
    for axis, size in sizes.items():
        x = x.index_select(axis, torch.arange(size, device=x.device) % x.shape[axis])
    return x
