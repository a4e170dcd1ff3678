"""Bytes whose scale is found in their own row are written in one pass over the row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_sparse.ops.bytes.quantize import Scale
from tvm_sparse.ops.bytes.quantize_rows import Hold, quantize_rows
from tvm_sparse.passes.bytes.quantization import zero_of
from tvm_sparse.passes.bytes.row_numbers import Bound, Group, find_groups, number_in, statistic_of
from tvm_sparse.passes.graph.elementwise import ELEMENTWISE
from tvm_sparse.passes.graph.rewrite import Rewriter, op_name, rewrite


class _Numbers:
    """The numbers of the rows of one group."""

    def __init__(self, group: Group, bound: Bound) -> None:
        self.group, self.bound = group, bound
        self.found = {m: statistic_of(bound, m) for m in group.members}
        self.values: dict[relax.Var, Any] = {}

    @property
    def extrema(self) -> list[str]:
        """Names of the extrema."""
        return list(dict.fromkeys(found[0] for found in self.found.values() if found))

    @property
    def dtypes(self) -> list[str]:
        """Types of the numbers that others read."""
        return [str(var.ty.dtype) for var in self.group.results]

    def settle(self, extrema: Mapping[str, Any], hold: Hold) -> list[Any]:
        """Compute all numbers of a row, in the order of the graph."""
        self.values = {}
        for var, found in self.found.items():
            self.values[var] = extrema[found[0]] if found else hold(self._value(var, self._number))
        return [self.values[var] for var in self.group.results]

    def steps(self, element: Any) -> Any:
        """Return the steps of an element."""

        def of(operand: Any) -> Any:
            if group.x.same_as(operand):
                return element
            known = operand in self.values or number_in(self.bound.get, operand) is not None
            return self._number(operand) if known else self._value(operand, of)

        group = self.group
        return of(self.bound[group.root].args[0])

    def _number(self, operand: Any) -> Any:
        """Return a number of the row, or a constant."""
        known = number_in(self.bound.get, operand)
        return self.values[operand] if known is None else tirx.const(known, str(operand.ty.dtype))

    def _value(self, var: relax.Var, of: Callable[[Any], Any]) -> Any:
        """Return the value of ``var``, of whose operands ``of`` gives the values."""
        call = self.bound[var]
        operands = [of(operand) for operand in call.args]
        compute = ELEMENTWISE[op_name(call)].scalar
        return compute(*operands) if compute else tirx.Cast(str(var.ty.dtype), *operands)


class _QuantizeRowsRule:
    """The rule: what a group makes is there from the first extremum of its rows on."""

    def __init__(self, func: relax.Function) -> None:
        self.groups, self.bound = find_groups(func)
        self.made: list[tuple[Any, Any]] = []

    def __call__(self, rewriter: Rewriter, call: relax.Call) -> Any | None:
        for group in self.groups:
            if rewriter.original.same_as(self.bound[group.members[0]]):
                self._make(rewriter, group)
        found = (new for old, new in self.made if rewriter.original.same_as(old))
        return next(found, None)

    def _make(self, rewriter: Rewriter, group: Group) -> None:
        """Emit the function of ``group``, and keep what replaces its results."""
        root = self.bound[group.root]
        scale = Scale(str(root.ty.dtype), 1.0, zero_of(root) or 0)

        numbers = _Numbers(group, self.bound)
        written = rewriter.emit(
            rewriter.builder_.call_te(
                lambda x: quantize_rows(x, scale, numbers),
                rewriter.visit_expr(group.x),
                primfunc_name_hint="quantize_rows",
            )
        )
        results = (group.root, *group.results)
        for i, var in enumerate(results):
            item = rewriter.emit(relax.TupleGetItem(written, i)) if len(results) > 1 else written
            self.made.append((self.bound[var], item))


@tvm.transform.module_pass(opt_level=0, name="QuantizeRows")
@dataclass(frozen=True)
class QuantizeRows:
    """Find the scale of each row and round the row in one function.

    before: ``quantize(multiply(x, 127 / max(abs(x))))`` and ``max(abs(x)) / 127``
    after: ``call_tir(quantize_rows, (x,))``, which returns both
    """

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return the lowered module."""
        return rewrite(mod, _QuantizeRowsRule(mod["main"]))
