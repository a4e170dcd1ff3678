"""Extents of closed axes that a program computes: a saved one has ``x.size(1)`` where it is 22."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx


def fold_closed_numbers(program: torch.export.ExportedProgram) -> None:
    """Put the numbers of extents that are known into the operators that take them.

    before: ``n = sym_size(x, 1); slice(table, 1, None, n)``
    after: ``slice(table, 1, None, 22)``
    """
    for node in list(program.graph.nodes):
        value = node.meta.get("val")
        known = value.node.maybe_as_int() if isinstance(value, torch.SymInt) else value
        if node.op != "call_function" or isinstance(known, bool) or not isinstance(known, int):
            continue

        def folded(one: fx.Node, node: fx.Node = node, known: int = known) -> Any:
            return known if one is node else one

        for user in [user for user in node.users if user.op != "output"]:
            user.args = fx.map_arg(user.args, folded)
            user.kwargs = fx.map_arg(user.kwargs, folded)
        if not node.users:
            program.graph.erase_node(node)
