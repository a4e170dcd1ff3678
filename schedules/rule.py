"""The contract of a schedule rule, and the pass that tries rules in order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.ops.marks import OPERATOR, STEP
from tvm_sparse.schedules.blocks import nodes
from tvm_sparse.schedules.single_bindings import single_bindings

SCHEDULED = "tirx.is_scheduled"

WRITTEN = "Written"
"""Instead of a rule's name: the definition says itself how it runs (a sort, a transposition)."""


class ScheduleRule(ABC):
    """Turns one function's definition into code for a target (dlight's contract)."""

    marks: ClassVar[tuple[str, ...]] = ()
    """Operators of the blocks that the rule is for; none: it looks itself."""

    version: ClassVar[int] = 1
    """Part of the key of tuning records: raise it when old decisions mean something else."""

    @property
    def name(self) -> str:
        """What reports and tuning records call the rule: its class without ``Rule``."""
        return type(self).__name__.removesuffix("Rule")

    @abstractmethod
    def apply(
        self, func: tirx.PrimFunc, target: Target, tunable: bool
    ) -> s_tir.Schedule | list[s_tir.Schedule] | None:
        """Return a schedule of ``func``, or ``None``: "not mine".

        With ``tunable`` the tile sizes are sampled decisions of the schedule's trace (see
        :mod:`~tvm_sparse.schedules.sampling`), which begin with the rule's own choice: as it is
        returned, the schedule gives the same code as the default.
        """

    source: ClassVar[str] = ""
    """How the times of :meth:`seconds` were found."""

    def seconds(self, func: tirx.PrimFunc, target: Target) -> float | None:
        """Return the time of ``func`` with the rule's schedule, where the rule knows it."""
        return None

    def feasible(self, schedule: s_tir.Schedule) -> bool:
        """Whether a schedule with other decisions is worth building."""
        return True


def first_schedule(
    func: tirx.PrimFunc, target: Target, rules: tuple[ScheduleRule, ...]
) -> tuple[s_tir.Schedule, str] | None:
    """Return the default schedule of the first rule that takes ``func``, with the rule's name.

    A function that is one opaque block (a sort, a scan) has nothing to schedule, unless a block in
    it has the body of another function: then the rule is that function's.
    """
    if is_written(func):
        return _with_step(func, target, rules)
    marks = _marks(func)
    for rule in rules:
        if rule.marks and marks.isdisjoint(rule.marks):
            continue
        schedule = rule.apply(func, target, tunable=False)
        if isinstance(schedule, list):
            schedule = schedule[0]
        if schedule is not None:
            return schedule, rule.name
    return None


def _marks(func: tirx.PrimFunc) -> set[str]:
    """Return the operators of the blocks of ``func``."""
    found = (block.annotations.get(OPERATOR) for block in nodes(func.body, s_tir.SBlock))
    return {str(mark) for mark in found if mark is not None}


def _with_step(
    func: tirx.PrimFunc, target: Target, rules: tuple[ScheduleRule, ...]
) -> tuple[s_tir.Schedule, str] | None:
    """Schedule the body of the block of ``func`` that is a function's, if there is one."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(func.body, (s_tir.SBlock, blocks.append))
    (step,) = [block for block in blocks if STEP in block.annotations] or [None]
    if step is None:
        return None
    params = [region.source for region in (*step.reads, *step.writes)]
    inner = tirx.PrimFunc(params, step.body).with_attr("global_symbol", "main")
    found = first_schedule(inner, target, rules)
    if found is None:
        return None
    schedule, rule = found
    body = schedule.mod["main"].body
    new = s_tir.SBlock(step.iter_vars, step.reads, step.writes, step.name_hint, body)
    whole = tvm_ffi.structural_map(
        func.body, (s_tir.SBlock, lambda block: new if STEP in block.annotations else block)
    )
    finished = tirx.PrimFunc(func.params, whole, func.ret_type, attrs=func.attrs)
    return s_tir.Schedule(finished), rule


def is_written(func: tirx.PrimFunc) -> bool:
    """Whether ``func`` is no nest of blocks but one opaque block."""
    return not isinstance(func.body, s_tir.SBlockRealize) or func.body.block.name_hint != "root"


@tvm.transform.module_pass(opt_level=0, name="ApplySchedules")
class ApplySchedules:
    """Schedule every function that is not scheduled yet.

    before: ``PrimFunc`` definitions --> after: scheduled ``PrimFunc``, marked so. ``report`` is
    called with the function's name and the rule's name (``None``: no rule took it; or
    :data:`WRITTEN`).
    """

    def __init__(
        self,
        target: Target,
        rules: tuple[ScheduleRule, ...],
        report: Callable[[str, str | None], None] = lambda name, rule: None,
    ) -> None:
        self.target, self.rules, self.report = target, rules, report

    def transform_module(self, mod: tvm.IRModule, _ctx: tvm.transform.PassContext) -> tvm.IRModule:
        """Return ``mod`` with its functions scheduled."""
        result = tvm.IRModule(mod.functions, attrs=mod.attrs)
        for name, func in mod.functions_items():
            if not isinstance(func, tirx.PrimFunc) or SCHEDULED in func.attrs:
                continue
            found = first_schedule(func, self.target, self.rules)
            written = WRITTEN if is_written(func) else None
            self.report(name.name_hint, found[1] if found else written)
            if found:
                scheduled = single_bindings(found[0].mod["main"])
                if "global_symbol" not in func.attrs:  # TVM keeps what has one, called or not
                    scheduled = scheduled.without_attr("global_symbol")
                result[name] = scheduled.with_attr(SCHEDULED, True)
        return result
