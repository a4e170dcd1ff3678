"""TVM's own default rules, held to what our code needs of them."""

from __future__ import annotations

import math
from typing import Any

from tvm import s_tir, tirx
from tvm.target import Target

from tvm_sparse.schedules import blocks as b
from tvm_sparse.schedules.cuda.threads import WARP
from tvm_sparse.schedules.rule import ScheduleRule

_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
"""Axes of a thread block, neighbouring lanes first."""


class StockRule(ScheduleRule):
    """One of TVM's default rules, where it gives a schedule that is right.

    A rule that fails (they assert what they did not think of) is one that does not take the
    function. So is one with lanes that add up what others have, and

    * a warp that is not whole: TVM reads lanes that are not there, what it gets is left open;
    * a condition around the sum: TVM drops it where the result is stored, past the end;
    * numbers that TVM does not shuffle (bfloat16, bytes): it leaves barriers of the warp out.
    """

    def __init__(self, rule: Any) -> None:
        self.rule = rule

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> s_tir.Schedule | None:
        """Return the stock rule's schedule, or the first one of several."""
        try:
            found = self.rule.apply(func, target, tunable)
        except Exception:
            return None
        schedule: s_tir.Schedule | None = found[0] if isinstance(found, list) else found
        return None if schedule is None or _wrong(schedule) else schedule


def _wrong(sch: s_tir.Schedule) -> bool:
    """Whether lanes add up in a part of a warp, under a condition, or what is not shuffled."""
    (func,) = (func for _, func in sch.mod.functions_items())
    realizes = {one.block.name_hint: one for one in b.nodes(func.body, s_tir.SBlockRealize)}
    for block in b.all_blocks(sch):
        realize = realizes[sch.get(block).name_hint]
        loops = map(sch.get, sch.get_loops(block))
        bound = [loop for loop in loops if loop.thread_binding is not None]
        threads = {str(loop.thread_binding.thread_tag): loop for loop in bound}
        axes = [threads[tag] for tag in _AXES if tag in threads]
        reduced = _reduced(realize)
        if not any(_holds(reduced, loop.loop_var) for loop in axes):
            continue
        # Lanes are numbered along the first axis with more than one thread.
        lanes = next((loop for loop in axes if b.static_extent(loop) != 1), None)
        whole = math.prod(map(b.static_extent, axes)) % WARP == 0
        shuffles = lanes is not None and _holds(reduced, lanes.loop_var)
        if (shuffles and not (whole and _shuffled(realize.block))) or _guarded(realize, reduced):
            return True
    return False


def _shuffled(block: s_tir.SBlock) -> bool:
    """Whether TVM passes what ``block`` reduces from lane to lane."""
    dtypes = [region.source.dtype for region in block.writes]
    return all(dtype == "float16" or dtype.bits >= 32 for dtype in dtypes)


def _guarded(realize: s_tir.SBlockRealize, reduced: list[tirx.Var]) -> bool:
    """Whether results that leave the kernel are stored under a condition on their place."""
    leaves = any(region.source.scope() == "global" for region in realize.block.writes)
    return leaves and any(not _holds(reduced, v) for v in b.nodes(realize.predicate, tirx.Var))


def _reduced(realize: s_tir.SBlockRealize) -> list[tirx.Var]:
    """Return the variables of loops that a block reduces along."""
    axes = zip(realize.block.iter_vars, realize.iter_values, strict=True)
    values = [value for axis, value in axes if int(axis.iter_type) == b.REDUCTION]
    return [var for value in values for var in b.nodes(value, tirx.Var)]


def _holds(variables: list[tirx.Var], wanted: tirx.Var) -> bool:
    return any(var.same_as(wanted) for var in variables)
