"""The other ways to store or cut a layer as tasks: once tuned, one may be the faster one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from tvm_sparse_runtime.libraries import LIBRARIES

WITHIN, MOST_CUTS = 1.3, 3
"""Time over the chosen format's up to which another one may catch up when it is tuned. So many
other numbers of parts of its reduction are tried, the modelled fastest ones."""


class RememberingChooser(Chooser):
    """Keeps what was chosen in :attr:`choices`: for ``every`` layer, or where there are cuts."""

    def __init__(self, *arguments: Any, every: bool = False, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.every = every
        self.choices: list[tuple[Layer, Choice]] = []

    def choose(self, layer: Layer) -> Choice:
        """Return the format of ``layer`` and record the decision."""
        choice = super().choose(layer)
        if self.every or choice.candidate.ways:
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
    rivals = (
        (f"{layer.name} as {rival.name}", layer, choice, rival)
        for layer, choice in choices
        for rival in _rivals(layer, choice, target, config)
    )
    return _tasks(rivals, target, skipped)


def cut_tasks(
    choices: list[tuple[Layer, Choice]],
    target: Target,
    skipped: Callable[[str, str], None] = lambda name, why: None,
) -> list[Task]:
    """Return a task for each number of parts that the reduction of a layer may be cut into.

    The operator alone, as it was chosen and in :data:`MOST_CUTS` other numbers of parts. With
    records of them ``compile`` takes the fastest. Layers whose kernel cannot be cut have none.
    """
    cuts = (
        (f"{layer.name} in {way.parts} parts", layer, choice, way)
        for layer, choice in choices
        for way in _cuts(layer, choice)
    )
    return _tasks(cuts, target, skipped)


def _tasks(
    wanted: Iterable[tuple[str, Layer, Choice, Candidate]],
    target: Target,
    skipped: Callable[[str, str], None],
) -> list[Task]:
    """Return the tasks of operators that stand instead of what was chosen, each of a name."""
    tasks: dict[Workload, Task] = {}
    for name, layer, choice, candidate in wanted:
        workload = workload_of(candidate.func, target)
        if workload is None:
            continue
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


def _cuts(layer: Layer, choice: Choice) -> list[Candidate]:
    """Return what was chosen for ``layer`` and its other numbers of parts, if there are any."""
    chosen = choice.candidate
    static = all(isinstance(extent, int) for extent in layer.contraction.lead)
    ways = chosen.ways() if static and chosen.ways else ()
    near = [way for way in ways if way.cost <= WITHIN * chosen.cost]
    return [chosen, *near[:MOST_CUTS]] if near else []


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
    found = {c.name: c for c in every if isinstance(c, Candidate) and c.name not in LIBRARIES}
    costs = choice.times or {name: c.cost for name, c in found.items()}
    chosen = choice.candidate.name
    limit = WITHIN * costs.get(chosen, choice.candidate.cost)
    return [c for n, c in found.items() if n != chosen and costs.get(n, limit + 1) <= limit]
