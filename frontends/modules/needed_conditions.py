"""Which conditions a program was traced under matter: those without which it is another model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.modules.kept_state import kept_state
from tvm_sparse.frontends.modules.open_axes import Call, changed_call, inputs_of
from tvm_sparse.frontends.program.agreement import check_close
from tvm_sparse.frontends.program.asked_conditions import Condition, of_several_extents
from tvm_sparse.frontends.program.conditions import failing, independent, least_and_larger
from tvm_sparse.frontends.program.decided_extents import environments_of, size_of
from tvm_sparse.frontends.program.ones import Shapes, traced_at

_ROWS = 3
"""Sizes at which a condition does not hold that the model is run at: the least ones, and the least
that are larger than the example. A table of the example's length has what smaller sizes read."""

MOST = 1 << 24
"""Elements of an input that the model is still run with."""


def needed(
    module: nn.Module,
    program: torch.export.ExportedProgram,
    call: Call,
    conditions: Sequence[Condition],
) -> list[Condition]:
    """Return the conditions without which ``program`` is not what ``module`` computes.

    ``if x.shape[1] > 1`` around a mask that one token does not need changes nothing. Where a
    condition does not hold, both are run on random numbers: they have to agree.
    """
    return [c for c in conditions if _matters(module, program, call, c)]


def conditions_of_trace(
    module: nn.Module,
    program: torch.export.ExportedProgram,
    call: Call,
    asked: Sequence[Condition],
) -> list[Condition]:
    """Return those that matter of what the model ``asked``, and of what its operators did.

    Of an equality of several extents the program alone does not tell: what takes operators apart
    goes by it, too. An inequality matters where the model itself fails without it: a slice may
    just be empty.
    """
    equal, unequal = of_several_extents(environments_of(program))
    ranges = program.range_constraints
    own = needed(module, program, call, asked)
    decided = independent(equal, own, ranges)
    kept = independent(unequal, [*decided, *own], ranges)
    kept = [c for c in kept if _fails_without(module, program, call, c)]
    return list(dict.fromkeys([*decided, *own, *kept]))


def refuse_numbers(
    module: nn.Module, program: torch.export.ExportedProgram, conditions: Sequence[Condition]
) -> None:
    """Refuse extents of which an operator made the number that they are in the example.

    Raises
    ------
    InputError
        There are ``conditions`` that say so: ``h // 2 == 32``.
    """
    for condition in conditions:
        raise InputError(
            f"model '{type(module).__name__}'",
            f"cannot leave {_axes_of(program, condition)} open (a number is made of it:"
            f" {condition.place})",
            "operators that take an extent there, and no number",
            "write that step with other operators, or give this extent one size",
        )


def _axes_of(program: torch.export.ExportedProgram, condition: Condition) -> str:
    """Return the axes of inputs that a condition is of, in words."""
    return " and ".join(
        f"axis {axis} of '{node.name}'"
        for node in inputs_of(program)
        for axis, extent in enumerate(getattr(node.meta.get("val"), "shape", ()))
        if isinstance(extent, torch.SymInt)
        and not extent.node.expr.free_symbols.isdisjoint(condition.symbols)
    )


def _matters(module: nn.Module, program: Any, call: Call, condition: Condition) -> bool:
    rows = _without(program, condition)
    return not all(_same(module, program, call, sizes) for sizes in rows)


def _fails_without(module: nn.Module, program: Any, call: Call, condition: Condition) -> bool:
    """Whether there are sizes with which ``condition`` does not hold, and the model fails there."""
    rows = list(_without(program, condition))
    return bool(rows) and not any(_runs(module, program, call, sizes) for sizes in rows)


def _without(program: Any, condition: Condition) -> Iterator[dict[Any, int]]:
    """Yield sizes of all symbols with which ``condition`` does not hold."""
    rows, example = failing(condition, program.range_constraints), traced_at(program)
    return (example | row for row in least_and_larger(rows, example, _ROWS))


def _runs(module: nn.Module, program: Any, call: Call, sizes: Mapping[Any, int]) -> bool:
    """Whether the model runs with the open extents at ``sizes``."""
    try:
        args, named = _at(program, call, sizes)
        with kept_state(module):
            module(*args, **named)
    except Exception:
        return False
    return True


def _at(program: Any, call: Call, sizes: Mapping[Any, int]) -> Call:
    """Return a call with the open extents of ``program`` at ``sizes``."""
    return changed_call(program, call, lambda x, traced: _resized(x, traced, sizes))


def _same(module: nn.Module, program: Any, call: Call, sizes: Mapping[Any, int]) -> bool:
    """Whether both give one result with the open extents at ``sizes``."""
    try:
        args, named = _at(program, call, sizes)
        traced = program.module(check_guards=False)
        given = pytree.tree_leaves((args, named))
        found = Shapes(traced, sizes).run(*given, enable_io_processing=False)
        with kept_state(module):
            wanted = module(*args, **named)
        check_close(traced.graph.process_outputs(found), wanted)
    except Exception:
        return False
    return True


def _resized(x: Any, traced: Any, sizes: Mapping[Any, int]) -> Any:
    """Return a tensor of the traced shape at ``sizes``: random numbers, or integers of ``x``."""
    if not isinstance(x, torch.Tensor):
        return x
    shape = [size_of(extent, sizes) for extent in traced.shape]
    if torch.Size(shape).numel() > MOST:
        raise ValueError("too large")
    if x.is_floating_point():
        return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(x)
    for axis, size in enumerate(shape):
        x = x.index_select(axis, torch.arange(size, device=x.device) % x.shape[axis])
    return x
