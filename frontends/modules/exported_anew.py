"""Export of what PyTorch refuses, with the example that leaves the fewest conditions on sizes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import sympy
import torch
from torch import nn
from torch.utils._sympy.numbers import int_oo

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.asked_sizes import exported_at_sizes
from tvm_sparse.frontends.modules.derived_dims import has_derived, narrower, refuse_narrower
from tvm_sparse.frontends.modules.kept_state import kept_state
from tvm_sparse.frontends.modules.needed_conditions import (
    conditions_of_trace,
    needed,
    refuse_numbers,
)
from tvm_sparse.frontends.modules.open_axes import Call, inputs_of, open_axes
from tvm_sparse.frontends.modules.other_examples import answering_otherwise, examples_of, unequal
from tvm_sparse.frontends.modules.traced import followed, traced
from tvm_sparse.frontends.modules.untraced import not_traced, suggests_multiples
from tvm_sparse.frontends.program.asked_conditions import AskedConditions, Condition
from tvm_sparse.frontends.program.conditions import bounded
from tvm_sparse.frontends.program.one_division import OneDivision
from tvm_sparse.frontends.program.ones import traced_at

Exported = tuple[torch.export.ExportedProgram, list[Condition]]
"""A program, and the conditions under which it is what its model computes."""

_ANSWERED = 2
"""So many conditions that matter are tried with examples of the other answer."""

_STEPS = 4
"""So many examples are tried one after the other, each without the equalities of the last one."""


def exported_anew(module: nn.Module, call: Call, shapes: Any, error: Exception) -> Exported:
    """Return what :func:`.exported_at_sizes` exports of what PyTorch refuses with ``error``.

    A model that pads where its frames are odd is one program for all sizes if it was traced with
    odd frames, and one for even frames alone otherwise. So where code of the model asks what
    matters, examples with the other answer are tried, too.

    Raises
    ------
    InputError
        It exports nothing, or only multiples of which PyTorch says how they are told; or what
        matters is not true at an end that was given to a range.
    """
    found = _found(module, call, shapes, OneDivision)
    found = found or _found(module, call, shapes, nullcontext)  # PyTorch's forms, which it bounds
    if not found:
        raise not_traced(module, call, error) from error
    program, conditions = min(found, key=_narrowness)
    narrowed, narrowing, left = bounded(program, conditions)
    if left and suggests_multiples(error):
        raise not_traced(module, call, error) from error
    _refuse_narrowed(module, _dims(module, call, shapes, program), narrowed, narrowing)
    return program, conditions


def _found(
    module: nn.Module, call: Call, shapes: Any, forms: Callable[[], AbstractContextManager[Any]]
) -> list[Exported]:
    """Return what some examples give, under ``forms`` of extents, up to one that fits all sizes."""
    found: list[Exported] = []
    for example in _examples(module, call, shapes, found):
        with followed(module, forms) as asked:
            program = _program(module, example, shapes, asked)
        if program is not None:
            found.append((program, conditions_of_trace(module, program, example, asked.found)))
            if not found[-1][1]:
                break
    return found


def _program(
    module: nn.Module, call: Call, shapes: Any, asked: AskedConditions
) -> torch.export.ExportedProgram | None:
    """Return what PyTorch exports of an example that is not the given one, or None."""
    if not has_derived(module, call, shapes):
        return exported_at_sizes(module, call, shapes, asked)
    try:
        with kept_state(module):
            program = torch.export.export(module, *call, dynamic_shapes=shapes)
        refuse_narrower(module, program, call, shapes)
    except Exception:  # of PyTorch: what it does not take is not taken
        return None
    refuse_numbers(module, program, needed(module, program, call, asked.numbers))
    return program


def answered_otherwise(module: nn.Module, call: Call, shapes: Any, exported: Exported) -> Exported:
    """Return ``exported``, or what other examples give if its conditions leave out sizes.

    A module that keeps a table of its last length reads that one if the example is as long.
    """
    program, conditions = exported
    if not conditions:
        return exported
    found, otherwise = [exported], _otherwise(module, call, exported)
    for example in itertools.chain(_unequal(module, call, found), otherwise):
        try:
            program, asked = traced(module, example, shapes)
        except Exception:  # of PyTorch: what it does not take is not taken
            continue
        as_wide = _as_wide(program, bounded(*exported)[0])
        if as_wide and not needed(module, program, example, asked.numbers):
            found.append((program, conditions_of_trace(module, program, example, asked.found)))
        if not found[-1][1]:
            break
    return min(found, key=_narrowness)


def _narrowness(exported: Exported) -> tuple[int, int]:
    """Return how many equalities of extents a program is right for only, and conditions in all."""
    equalities = sum(isinstance(c.expression, sympy.Eq) for c in exported[1])
    return equalities, len(exported[1])


def _as_wide(program: torch.export.ExportedProgram, other: torch.export.ExportedProgram) -> bool:
    """Whether as many extents of ``program`` are open as of ``other``, with all of its sizes."""
    mine, others = ([p.range_constraints.get(s) for s in traced_at(p)] for p in (program, other))
    return len(mine) == len(others) and all(
        a is not None and b is not None and a.lower <= b.lower and a.upper >= b.upper
        for a, b in zip(mine, others, strict=True)
    )


def _examples(
    module: nn.Module, call: Call, shapes: Any, found: Sequence[Exported]
) -> Iterator[Call]:
    """Yield examples of other sizes, at last those that answer otherwise what ``found`` asks."""
    beside = examples_of(module, call, shapes)
    yield next(beside)
    yield from _unequal(module, call, found)
    yield from beside
    for first in found[:1]:
        yield from _otherwise(module, call, first)


def _unequal(module: nn.Module, call: Call, found: Sequence[Exported]) -> Iterator[Call]:
    """Yield examples with which no equality holds that the last of ``found`` asks.

    What is asked of smaller planes depends on how larger ones were rounded, so each is a step.
    """
    for _ in range(_STEPS if found else 0):
        known = len(found)
        program, conditions = found[-1]
        yield from unequal(module, program, call, conditions)
        if len(found) == known:
            break


def _otherwise(module: nn.Module, call: Call, exported: Exported) -> Iterator[Call]:
    program, conditions = exported
    for condition in conditions[:_ANSWERED]:
        yield from answering_otherwise(module, program, call, condition)


def _refuse_narrowed(
    module: nn.Module,
    dims: Mapping[Any, Any],
    narrowed: torch.export.ExportedProgram,
    narrowing: Sequence[Condition],
) -> None:
    """Refuse conditions by which an end that was given to a range is not in it."""
    for symbol, dim in dims.items():
        found = narrower(dim, narrowed.range_constraints[symbol], first=dim.min or int_oo)
        if found:
            places = dict.fromkeys(c.place for c in narrowing if c.symbols == [symbol])
            raise InputError(
                f"model '{type(module).__name__}'",
                "cannot leave these extents open (other sizes are another model:"
                f" {', '.join(places)})",
                "a range of sizes for which it is one program",
                f"pass torch.export.{found}",
            )


def _dims(
    module: nn.Module, call: Call, shapes: Any, program: torch.export.ExportedProgram
) -> Mapping[Any, Any]:
    """Return the dimension of each symbol of ``program``."""
    leaves = zip(inputs_of(program), open_axes(module, call, shapes), strict=True)
    return {
        node.meta["val"].shape[axis].node.expr: dim
        for node, axes in leaves
        for axis, dim in axes.items()
    }
