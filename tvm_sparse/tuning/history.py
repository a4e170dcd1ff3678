"""How the search for a schedule went: the best time after each trial, out of tuning records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tvm import tirx
from tvm.target import Target

from tvm_sparse.schedules.build import rules_for
from tvm_sparse.schedules.kernel import Kernel
from tvm_sparse.schedules.rule import ScheduleRule
from tvm_sparse.selection.decisions import History
from tvm_sparse.tuning.recorded import Tuned
from tvm_sparse.tuning.space import space_of
from tvm_sparse.tuning.workload import workload_of


def best_so_far(ratios: Iterable[float | None]) -> list[float]:
    """Return the best ratio to the default after each trial; ``None`` is one that failed."""
    best, curve = 1.0, []
    for ratio in ratios:
        best = min(best, ratio or best)
        curve.append(best)
    return curve


def histories(
    functions: Mapping[str, tirx.PrimFunc],
    kernels: Sequence[Kernel],
    target: Target,
    recorded: Sequence[ScheduleRule],
) -> list[History]:
    """Return the searches behind the kernels that run a recorded schedule, in call order.

    Parameters
    ----------
    functions
        What each kernel was before it was scheduled; of those without one there is nothing to show.
    kernels
        What the program calls; ``rule`` names the rule that scheduled each.
    recorded
        The rules that look into records. One that knows a single trial has no search to show:
        records that come with the package are the best alone.
    """
    rules = {rule.name: rule for rule in recorded if isinstance(rule, Tuned)}
    found: list[History] = []
    for name in dict.fromkeys(kernel.function for kernel in kernels):
        same = [kernel for kernel in kernels if kernel.function == name]
        rule = rules.get(same[0].rule or "")
        trials = _trials(rule, functions[name], target) if rule and name in functions else []
        if rule and len(trials) > 1:
            default, ratios = trials[0][0], [ratio for _, ratio in trials]
            curve = tuple(default * ratio for ratio in best_so_far(ratios))
            layers = tuple(dict.fromkeys(kernel.layer for kernel in same if kernel.layer))
            found.append(History(name, layers, rule.origin, default, curve))
    return found


def _trials(rule: Tuned, func: tirx.PrimFunc, target: Target) -> list[tuple[float, float]]:
    """Return the default's microseconds and the ratio to it, for each trial that gave a time."""
    workload = workload_of(func, target)
    space = space_of(func, target, rules_for(target)) if workload else None
    if workload is None or space is None:
        return []
    records = [r for r in rule.database.of(workload, space, rule.source) if not r.confirmed]
    mine = [r for r in records if r.function == workload.function]
    timed = ((r.default_microseconds, r.ratio) for r in mine or records)
    return [(default, ratio) for default, ratio in timed if default and ratio]
