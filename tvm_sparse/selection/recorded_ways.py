"""Ways to compute a format that the model cannot tell apart, but tuning has: what it found."""

from __future__ import annotations

from tvm.target import Target

from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.candidate import Candidate

GAIN = 1.03
"""How many times faster another way must be recorded: less may be noise."""


def fastest_way(
    candidate: Candidate, rules: tuple[ScheduleRule, ...], target: Target
) -> tuple[Candidate, str]:
    """Return the way of ``candidate`` with the shortest time by records, and what they say.

    The first of ``rules`` that knows the candidate's own time and another way's decides; without
    one the candidate stays.
    """
    for rule in rules if candidate.ways else ():
        own = rule.seconds(candidate.func, target)
        ways = candidate.ways() if own and candidate.ways else ()
        times = [(rule.seconds(way.func, target), way) for way in ways]
        known = [(time, way) for time, way in times if time]
        if not own or not known:
            continue
        time, way = min(known, key=lambda one: one[0])
        if own < GAIN * time:
            return candidate, ""
        told = f"{time * 1e6:.1f} us, {own * 1e6:.1f} us in {candidate.parts}"
        return way, f"reduced in {way.parts} parts by a {rule.source} record: {told}"
    return candidate, ""
