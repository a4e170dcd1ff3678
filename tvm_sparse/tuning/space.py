"""The design space of one function: the decisions that its schedule rule leaves open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm
from tvm import s_tir, tirx
from tvm.s_tir.schedule import Trace
from tvm.target import Target

from tvm_sparse.schedules.rule import ScheduleRule

CATEGORICAL = "SampleCategorical"
SEARCH_END = "EnterPostproc"
"""What the search appends to a trace."""

_LIMIT = 1 << 31

Value = int | tuple[int, ...]
"""One decision: the chosen option, or the factors of a split, outermost first."""


@dataclass(frozen=True)
class Point:
    """One schedule of a space: which of the rule's variants, and its decisions in trace order."""

    variant: int
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Space:
    """What can be decided about ``func``: ``variants`` are traces at their default decisions."""

    func: tirx.PrimFunc
    rule: ScheduleRule
    variants: tuple[s_tir.Schedule, ...]

    @property
    def rule_name(self) -> str:
        """Name of the rule, as records have it."""
        return self.rule.name

    @property
    def module(self) -> tvm.IRModule:
        """A module whose only function, ``main``, is ``func``.

        ``func`` itself, not a copy: schedules edit in place what only their module refers to, and
        copies of a function have one body.
        """
        return tvm.IRModule({"main": self.func})

    @cached_property
    def default(self) -> Point:
        """The rule's own choice."""
        return self.point(self.variants[0])

    @cached_property
    def _outlines(self) -> list[list[tuple[str, str]]]:
        """The outline of each variant."""
        return [_outline(variant) for variant in self.variants]

    def point(self, schedule: s_tir.Schedule) -> Point:
        """Return the decisions of a schedule of this space."""
        variant = self._outlines.index(_outline(schedule))
        decisions = schedule.trace.decisions
        values = (_value(i, decisions[i]) for i in schedule.trace.insts if i in decisions)
        return Point(variant, tuple(values))

    def schedule(self, point: Point) -> s_tir.Schedule | None:
        """Return the schedule at ``point``; ``None`` if it is not a point of this space.

        A split whose factors do not fit is repaired by TVM: that would be another point.
        """
        if not 0 <= point.variant < len(self.variants):
            return None
        trace = self.variants[point.variant].trace
        sampled = [i for i in trace.insts if i in trace.decisions]
        if len(sampled) != len(point.values):
            return None
        pairs = zip(sampled, point.values, strict=True)
        decisions = {i: _decision(i, value) for i, value in pairs}
        if None in decisions.values():
            return None
        result = s_tir.Schedule(self.module)
        try:
            Trace(trace.insts, decisions).apply_to_schedule(result, remove_postproc=False)
        except (s_tir.ScheduleError, tvm.error.InternalError, ValueError):
            return None
        return result if self.point(result) == point else None


def space_of(func: tirx.PrimFunc, target: Target, rules: tuple[ScheduleRule, ...]) -> Space | None:
    """Return the space of the first rule that takes ``func``; ``None`` if it decides nothing."""
    func = func.with_attr("global_symbol", "main")
    for rule in rules:
        found = rule.apply(func, target, tunable=True)
        if found is None:
            continue
        variants = tuple(found) if isinstance(found, list) else (found,)
        sampled = any(len(v.trace.decisions) for v in variants)
        return Space(func, rule, variants) if sampled else None
    return None


def _outline(schedule: s_tir.Schedule) -> list[tuple[str, str]]:
    """Return what identifies a variant: what its instructions do, without the decisions.

    The search drops queries whose result nobody uses, and marks where it ended.
    """
    steps = ((str(i.kind.name), str(i.attrs)) for i in schedule.trace.insts)
    return [step for step in steps if not step[0].startswith("Get") and step[0] != SEARCH_END]


def _value(instruction: Any, decision: Any) -> Value:
    """Return a decision by value, so that records survive a change of the options' order."""
    if instruction.kind.name == CATEGORICAL:
        return int(instruction.attrs[0][int(decision)])
    return tuple(int(factor) for factor in decision)


def _decision(instruction: Any, value: Value) -> Any:
    """Return what TVM stores for ``value``; ``None`` if the instruction cannot decide so."""
    if instruction.kind.name != CATEGORICAL:
        if not isinstance(value, tuple) or len(value) != int(instruction.attrs[0]):
            return None
        # A factor of zero would divide by zero inside TVM; one beyond its integers is no factor.
        return list(value) if min(value) > 0 and max(value) < _LIMIT else None
    options = [int(option) for option in instruction.attrs[0]]
    return options.index(value) if value in options else None
