"""The other ways to store a layer as tasks: once tuned, one of them may be the faster one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tvm.target import Target

from tvm_sparse.base.config import Config
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.selection.choose import Choice, Chooser
from tvm_sparse.selection.layer import Layer
from tvm_sparse.tuning.tasks import Call, Task, task_of
from tvm_sparse.tuning.workload import Workload, workload_of
from tvm_sparse_runtime.libraries import CUBLASLT

WITHIN = 1.3
"""Time over the chosen format's up to which another one may catch up when it is tuned."""


class RememberingChooser(Chooser):
    """Keeps what was chosen for each layer in :attr:`choices`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.choices: list[tuple[Layer, Choice]] = []

    def choose(self, layer: Layer) -> Choice:
        """Return the format of ``layer`` and record the decision."""
        choice = super().choose(layer)
        self.choices.append((layer, choice))
        return choice


def format_tasks(
    choices: list[tuple[Layer, Choice]],
    target: Target,
    config: Config,
    skipped: Callable[[str, str], None] = lambda name, why: None,
) -> list[Task]:
    """Return a task for each format that is at most :data:`WITHIN` slower than a layer's chosen.

    Its function is the operator alone, as the choice measures it: with a record, ``compile``
    measures the tuned schedule of each format and takes the fastest. Equal functions are one
    task. Layers with a forced format, or with a symbolic batch, have none.
    """
    tasks: dict[Workload, Task] = {}
    for layer, choice in choices:
        for candidate in _rivals(layer, choice, target, config):
            workload = workload_of(candidate.func, target)
            if workload is None:
                continue
            name = f"{layer.name} as {candidate.name}"
            if workload in tasks:
                tasks[workload] = tasks[workload].with_call((layer.name,))
                continue
            arrays = candidate.format.encode(layer.matrix).values()
            fixed = dict(enumerate(arrays, start=1))
            call = Call(name, (layer.name,), fixed, 1 + len(fixed))
            task = task_of(candidate.func, target, call, workload)
            if isinstance(task, Task):
                tasks[workload] = replace(task, instead_of=choice.candidate.name)
            else:
                skipped(name, task)
    return list(tasks.values())


def _rivals(layer: Layer, choice: Choice, target: Target, config: Config) -> list[Candidate]:
    """Return the formats of ``layer`` that are near to the chosen one, as far as is known."""
    fixed = not config.sparse or config.forced(layer.name) is not None
    static = all(isinstance(extent, int) for extent in layer.contraction.lead)
    if fixed or not static or not (layer.matrix == 0).any():
        return []
    every = [
        *dense_candidates(layer.contraction, target),
        *sparse_candidates(layer.contraction, layer.scan(), target),
    ]
    found = {c.name: c for c in every if isinstance(c, Candidate) and c.name != CUBLASLT}
    costs = choice.times or {name: c.cost for name, c in found.items()}
    chosen = choice.candidate.name
    limit = WITHIN * costs[chosen]
    return [c for n, c in found.items() if n != chosen and costs.get(n, limit + 1) <= limit]
