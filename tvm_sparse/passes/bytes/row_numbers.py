"""What of a graph is computed from nothing but the extrema of a tensor's own rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tvm import relax

from tvm_sparse.base.memory import array_of
from tvm_sparse.base.numerics import FLOAT_SUMS
from tvm_sparse.ops.bytes.quantize_rows import MAGNITUDE
from tvm_sparse.passes.bytes.quantization import zero_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import op_name, shape_of

Bound = dict[relax.Var, Any]
"""What each variable of a function is bound to."""


@dataclass
class Group:
    """A ``quantize`` of ``x`` with all that is computed from extrema of the rows of ``x``.

    Parameters
    ----------
    x
        What is quantized, of at least two axes.
    root
        The variable of the bytes.
    members
        Numbers of rows, in the order of the function.
    results
        Those that others than the bytes read.
    """

    x: relax.Var
    root: relax.Var
    members: list[relax.Var] = field(default_factory=list)
    results: list[relax.Var] = field(default_factory=list)


def _computes(call: Any) -> bool:
    """Whether numbers of rows are computed with such a call."""
    traits = ELEMENTWISE.get(op_name(call))
    return traits is not None and (traits.scalar is not None or op_name(call) == "astype")


def _is_binary(call: Any) -> bool:
    """Whether such a call combines an element with a number of its row."""
    return _computes(call) and ELEMENTWISE[op_name(call)].operands == 2


def statistic_of(bound: Bound, expr: Any) -> tuple[str, Any] | None:
    """Return the name of the extremum that ``expr`` is, and the tensor whose rows it is of."""
    call: Any = bound.get(expr) if isinstance(expr, relax.Var) else None
    name = op_name(call)
    if name not in ("max", "min") or not call.attrs.keepdims or not _reduces_rows(call):
        return None
    inner: Any = bound.get(call.args[0])
    if name == "max" and op_name(inner) == "abs":
        return MAGNITUDE, inner.args[0]
    return name, call.args[0]


def _reduces_rows(call: relax.Call) -> bool:
    """Whether whole rows of floats are reduced."""
    shape, axes = shape_of(call.args[0]) or [], call.attrs.axis
    if axes is None or [int(a) % len(shape) for a in axes] != [len(shape) - 1]:
        return False
    known = isinstance(shape[-1], int) and shape[-1] > 0
    return known and len(shape) > 1 and str(call.ty.dtype) == FLOAT_SUMS


def number_in(look: Callable[[Any], Any], expr: Any) -> Any | None:
    """Return the number that a constant, or a tensor filled with one, has everywhere.

    ``look`` returns what a variable is bound to.
    """
    expr = look(expr) if isinstance(expr, relax.Var) else expr
    if op_name(expr) in ("astype", "full_like"):
        found = number_in(look, expr.args[-1])
        return None if found is None else np.dtype(str(expr.ty.dtype)).type(found).item()
    if not hasattr(expr, "value") or expr.value.numel() != 1:
        return None
    return array_of(expr).reshape(-1)[0].item()


class _Finder:
    """Finds the groups of a function."""

    def __init__(self, func: relax.Function) -> None:
        blocks = func.body.blocks
        self.bound: Bound = {b.var: b.value for block in blocks for b in block.bindings}
        self.readers: dict[relax.Var, list[relax.Var | None]] = {}
        for var, value in [*self.bound.items(), (None, func.body.body)]:
            for read in relax.analysis.free_vars(value):
                self.readers.setdefault(read, []).append(var)

    def group(self, root: relax.Var) -> Group | None:
        """Return the group of the bytes ``root``, if they are such."""
        call = self.bound[root]
        if op_name(call) != "quantize" or zero_of(call) is None:
            return None
        steps = call.args[0]
        x = self._source(steps)
        if x is None:
            return None
        group = Group(x, root)
        for var, value in self.bound.items():
            if self._belongs(group, var, value):
                group.members.append(var)
        inner: set[relax.Var] = set()
        if not self._counts(group, steps, inner):
            return None
        inside = {root, *self._dying(root, inner), *group.members}
        group.results = [m for m in group.members if self._read_outside(m, inside)]
        return group

    def _read_outside(self, var: relax.Var, inside: set[relax.Var]) -> bool:
        return any(r is None or r not in inside for r in self.readers.get(var, []))

    def _source(self, steps: Any) -> relax.Var | None:
        """Return the tensor whose rows' extrema ``steps`` are counted with."""
        while _is_binary(self.bound.get(steps)):
            first, second = self.bound[steps].args
            found = self._reduced(second)
            if found is not None:
                return found
            steps = first
        return None

    def _reduced(self, number: Any) -> relax.Var | None:
        """Return the tensor whose rows' extrema ``number`` is computed from."""
        found = statistic_of(self.bound, number)
        if found is not None:
            return found[1] if isinstance(found[1], relax.Var) else None
        call: Any = self.bound.get(number) if isinstance(number, relax.Var) else None
        shape = shape_of(number)
        if not _computes(call) or not shape or shape[-1] != 1:
            return None
        sources = (self._reduced(a) for a in call.args)
        return next((source for source in sources if source is not None), None)

    def _belongs(self, group: Group, var: relax.Var, call: Any) -> bool:
        """Whether ``var`` is a number of rows of the group, given the members before it."""
        found = statistic_of(self.bound, var)
        if found is not None:
            return bool(found[1].same_as(group.x))
        shape = shape_of(var)
        if shape is None or shape != [*(shape_of(group.x) or [])[:-1], 1]:
            return False
        if not _computes(call):
            return False
        others = [a for a in call.args if a not in group.members]
        known = all(number_in(self.bound.get, a) is not None for a in others)
        return known and len(others) < len(call.args)

    def _counts(self, group: Group, expr: Any, inner: set[relax.Var]) -> bool:
        """Enter in ``inner`` what the steps ``expr`` are computed by; whether all is known."""
        if expr in group.members or expr.same_as(group.x):
            return True
        if number_in(self.bound.get, expr) is not None:
            return True
        call: Any = self.bound.get(expr) if isinstance(expr, relax.Var) else None
        if not _is_binary(call):
            return False
        inner.add(expr)
        return all(self._counts(group, a, inner) for a in call.args)

    def _dying(self, root: relax.Var, inner: set[relax.Var]) -> set[relax.Var]:
        """Return those of ``inner`` that nothing but ``root`` needs."""
        left = set(inner)
        while True:
            kept = {v for v in left if all(r == root or r in left for r in self.readers[v])}
            if kept == left:
                return left
            left = kept


def find_groups(func: relax.Function) -> tuple[list[Group], Bound]:
    """Return the groups of ``func``, and what its variables are bound to."""
    finder = _Finder(func)
    found = (finder.group(var) for var in finder.bound)
    return [group for group in found if group is not None], finder.bound
