"""What there is to tune in a model: its fused functions, each with the layers that call it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.target import Target

from tvm_sparse.base.names import layer_of_array
from tvm_sparse.passes.graph.rewrite import name_of
from tvm_sparse.schedules.build import rules_for
from tvm_sparse.tuning import operands
from tvm_sparse.tuning.space import Space, space_of
from tvm_sparse.tuning.workload import Workload, workload_of


@dataclass(frozen=True)
class Task:
    """One function to tune.

    Parameters
    ----------
    name
        Of the function, unique in its model.
    workload, space
        Key and decisions.
    layers
        Fully qualified names of the layers that it computes.
    calls
        How often the model calls it.
    fixed
        Weights in their format, by parameter position.
    outputs
        Number of parameters that it writes.
    instead_of
        Format that the layers have now, if the function is another one that they could have.
    """

    name: str
    workload: Workload
    space: Space
    layers: tuple[str, ...] = ()
    calls: int = 1
    fixed: dict[int, np.ndarray] = field(default_factory=dict, repr=False)
    outputs: int = 1
    instead_of: str = ""

    @property
    def func(self) -> tirx.PrimFunc:
        """The function's definition."""
        return self.space.func

    def with_call(self, layers: tuple[str, ...]) -> Task:
        """Return the task with one call more, of ``layers``."""
        merged = tuple(dict.fromkeys((*self.layers, *layers)))
        return replace(self, calls=self.calls + 1, layers=merged)


@dataclass(frozen=True)
class Call:
    """A call of a function of the module: its name, its layers and its constant arguments."""

    function: str
    layers: tuple[str, ...]
    fixed: dict[int, np.ndarray] = field(repr=False)
    arguments: int


def extract(
    mod: tvm.IRModule, target: Target, skipped: Callable[[str, str], None] = lambda name, why: None
) -> list[Task]:
    """Return the tasks of a module that is lowered and fused, equal functions as one task.

    ``skipped`` hears name and reason of each function with an operator of ours that has no task.
    """
    functions = {g.name_hint: f for g, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    tasks: dict[Workload, Task] = {}
    for call in calls_of(mod):
        func = functions[call.function]
        workload = workload_of(func, target)
        if workload is None:
            continue
        if workload in tasks:
            tasks[workload] = tasks[workload].with_call(call.layers)
            continue
        task = task_of(func, target, call, workload)
        if isinstance(task, Task):
            tasks[workload] = task
        else:
            skipped(call.function, task)
    return list(tasks.values())


def task_of(func: tirx.PrimFunc, target: Target, call: Call, workload: Workload) -> Task | str:
    """Return the task of ``func``, or the reason why there is none."""
    reason = operands.unmeasurable(func)
    if reason is not None:
        return reason
    space = space_of(func, target, rules_for(target))
    if space is None:
        return "its schedule rule leaves nothing open"
    outputs = len(func.params) - call.arguments
    return Task(call.function, workload, space, call.layers, 1, call.fixed, outputs)


def calls_of(mod: tvm.IRModule) -> Iterator[Call]:
    """Yield each call of a TIR function in ``main``, in order."""
    main = mod["main"]
    bound = relax.analysis.get_var2val(main)
    for block in main.body.blocks:
        for binding in block.bindings:
            call = getattr(binding, "value", None)
            if isinstance(call, relax.Call) and getattr(call.op, "name", "") == "relax.call_tir":
                yield _call(call, bound)


def _call(call: relax.Call, bound: Any) -> Call:
    values = [bound.get(a, a) if isinstance(a, relax.Var) else a for a in call.args[1].fields]
    constants = {i: v for i, v in enumerate(values) if isinstance(v, tvm.ir.GenericConst)}
    layers = dict.fromkeys(filter(None, map(layer_of_array, map(name_of, constants.values()))))
    fixed = {i: v.value.numpy() for i, v in constants.items()}
    return Call(call.args[0].name_hint, tuple(layers), fixed, len(values))
