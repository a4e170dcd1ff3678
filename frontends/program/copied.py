"""Programs with a graph of their own, to be changed."""

from __future__ import annotations

import copy

import torch
from torch import fx


def copied(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with a copy of its graph, in which all nodes keep their names.

    PyTorch gives a copy of a node called ``input`` another name, as of all of Python's own
    functions. The signature of the program would not know it.
    """
    graph = fx.Graph()
    graph.output(graph.graph_copy(program.graph, {}))
    for node, own in zip(program.graph.nodes, graph.nodes, strict=True):
        own.name = node.name
    result = copy.copy(program)
    result._graph_module = fx.GraphModule(program.graph_module, graph)
    result.graph_module.meta.update(program.graph_module.meta)
    return result
