"""Assignments of a tensor that a model holds to itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tvm_sparse.frontends.program.copied import copied

aten = torch.ops.aten
_SAME = (
    aten.to.device,
    aten.to.dtype,
    aten.to.dtype_layout,
    aten.to.other,
    aten.alias.default,
    aten.detach.default,
    aten.contiguous.default,
)
"""Operators whose result has the elements of their operand, if it has its type.

Their result is a view to PyTorch, so whoever changes it changes the operand, which is refused.
"""


def without_own_copies(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` without what writes a tensor's own elements into it.

    ``self.table = self.table.to(x.device)`` is such an assignment of a buffer, on one device.
    """
    if not any(map(_is_own, program.graph.nodes)):
        return program
    result = copied(program)
    for node in filter(_is_own, list(result.graph.nodes)):
        result.graph.erase_node(node)
    result.graph_module.recompile()
    return result


def _is_own(node: fx.Node) -> bool:
    """Whether ``node`` copies a tensor into itself and nothing reads its result."""
    if node.target is not aten.copy_.default or node.users:
        return False
    written: Any = node.args[0]
    value: Any = node.args[1]
    while isinstance(value, fx.Node) and value.target in _SAME and _type(value) == _type(written):
        value = value.args[0]
    return value is written


def _type(node: fx.Node) -> Any:
    return node.meta["val"].dtype
