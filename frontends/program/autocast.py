"""Programs that were exported under ``torch.autocast``: its casts are not in their graphs."""

from __future__ import annotations

import torch
from torch import fx

HALVES = (torch.float16, torch.bfloat16)


def with_casts(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` with the casts that ``torch.autocast`` made while it was exported.

    before: ``linear(x, w)`` of float32 with a result in bfloat16
    after: ``linear(to_copy(x), to_copy(w))``

    Autocast casts in front of what :func:`torch.export.export` records: the types of results are
    all that is left of it. So operators are traced again, under the autocast that they tell of.
    """
    found = recorded(program.graph_module.graph)
    if found is None:
        return program
    device, dtype = found
    with torch.autocast(device, dtype, cache_enabled=False), torch.no_grad():
        return program.run_decompositions({})


def recorded(graph: fx.Graph) -> tuple[str, torch.dtype] | None:
    """Return the device and dtype of the autocast that ``graph`` was exported under, if it was.

    An operator tells it that has tensors in single precision only, at least two of them, and gives
    one in half precision without being asked to.
    """
    for node in graph.nodes:
        if node.op != "call_function" or torch.dtype in map(type, node.kwargs.values()):
            continue
        out, read = node.meta.get("val"), [_value(arg) for arg in node.all_input_nodes]
        floats = [x for x in read if isinstance(x, torch.Tensor) and x.is_floating_point()]
        single = len(floats) > 1 and all(x.dtype == torch.float32 for x in floats)
        if single and isinstance(out, torch.Tensor) and out.dtype in HALVES:
            return out.device.type, out.dtype
    return None


def _value(node: fx.Node) -> object:
    return node.meta.get("val")
