"""What became of a model that ``torch.compile`` gave to this backend: :func:`partitions`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tvm_sparse.dynamo.graph import Graph
from tvm_sparse.dynamo.parts import Eager, Part
from tvm_sparse.errors import InputError

_GRAPHS: list[Graph] = []
"""Every graph of this process, until all its weights are gone."""


@dataclass(frozen=True)
class GraphReport:
    """One graph for one shape.

    Parameters
    ----------
    shapes
        Its arguments without the weights.
    parts
        What was compiled; ``part.export(directory)`` writes its artifact.
    eager
        Operators that PyTorch runs.
    refused
        Why PyTorch runs the whole graph; empty if it does not.
    """

    shapes: str
    parts: tuple[Part, ...] = ()
    eager: tuple[Eager, ...] = ()
    refused: str = ""

    def __str__(self) -> str:
        if self.refused:
            return f"{self.shapes}: PyTorch runs it, {self.refused}"
        cached = sum(part.cached for part in self.parts)
        lines = [f"{self.shapes}: {len(self.parts)} compiled parts, {cached} from the cache"]
        for number, part in enumerate(self.parts):
            lines += [
                f"  part {number}, {d['layer']}: {d['chosen']}, {d['reason']}"
                for d in part.decisions
            ]
        return "\n".join([*lines, *(f"  {_told(e)}" for e in self.eager)])


@dataclass(frozen=True)
class Explanation:
    """All graphs of a model in the order in which Dynamo made them.

    ``left`` are layers that Dynamo gives to no backend.
    """

    graphs: tuple[GraphReport, ...]
    left: tuple[Eager, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        """All compiled parts."""
        return tuple(part for graph in self.graphs for part in graph.parts)

    def __str__(self) -> str:
        graphs = [*map(str, self.graphs)] or ["nothing was compiled yet: call the model"]
        return "\n".join([*graphs, *map(_told, self.left)])


def remember(graph: Graph) -> None:
    """Keep ``graph`` for reports."""
    _GRAPHS[:] = [
        other
        for other in _GRAPHS
        if not other.owners or any(ref() is not None for ref in other.owners)
    ]
    _GRAPHS.append(graph)


def partitions(model: Any = None) -> Explanation:
    """Return what was compiled of ``model`` and what PyTorch runs, with the reasons.

    Parameters
    ----------
    model
        What ``torch.compile`` returned for a module, or the module: the graphs that have a weight
        of it. Without it, all graphs of this process.
    """
    if model is None:
        return Explanation(tuple(r for graph in _GRAPHS for r in _reports(graph)))
    module = getattr(model, "_orig_mod", model)
    if not isinstance(module, nn.Module):
        found = f"is a {type(model).__name__}"
        raise InputError("model", found, "a module", "leave it out to see all graphs")
    own = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    graphs = [g for g in _GRAPHS if any(id(ref()) in own for ref in g.owners)]
    reports = tuple(report for graph in graphs for report in _reports(graph, own))
    return Explanation(reports, _recurrent(module))


def explain(model: Any = None) -> Explanation:
    """Return :func:`partitions`, whose old name this is."""
    told = "tvm_sparse.explain is called tvm_sparse.partitions now; this name will go"
    warnings.warn(told, FutureWarning, stacklevel=2)
    return partitions(model)


def _recurrent(module: nn.Module) -> tuple[Eager, ...]:
    """Return the recurrent layers of a module, which Dynamo leaves out unless it is told."""
    if torch._dynamo.config.allow_rnn:
        return ()
    reason = "Dynamo traces no recurrent layers: set torch._dynamo.config.allow_rnn = True"
    return tuple(
        Eager(type(part).__name__, f"layer '{name}'", reason)
        for name, part in module.named_modules()
        if isinstance(part, nn.RNNBase)
    )


def _told(eager: Eager) -> str:
    return f"PyTorch runs {eager.operator} in {eager.layer}: {eager.reason}"


def _reports(graph: Graph, own: set[int] | None = None) -> list[GraphReport]:
    """Return what became of a graph; with ``own``, for weights that are among these."""
    made = [
        GraphReport(c.shapes, c.runner.parts, c.runner.eager)
        for group in graph.compiled.values()
        for c in group
        if own is None or any(id(ref()) in own for ref in c.owners)
    ]
    return made + [GraphReport(s, refused=reason) for s, reason in graph.refused.items()]
