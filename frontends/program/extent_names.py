"""What to call open extents in the words of who calls the model: ``x.shape[1]``."""

from __future__ import annotations

import re
from typing import Any

import torch

from tvm_sparse.errors import SparseError

_SYMBOL = re.compile(r"\bs\d+\b")
"""What PyTorch calls an extent."""


def names_of_extents(program: torch.export.ExportedProgram) -> dict[Any, str]:
    """Return the name of each symbol: the input and axis that has it."""
    found: dict[Any, str] = {}
    for node in program.graph.find_nodes(op="placeholder"):
        for axis, extent in enumerate(getattr(node.meta.get("val"), "shape", ())):
            if isinstance(extent, torch.SymInt) and extent.node.expr.is_Symbol:
                found.setdefault(extent.node.expr, f"{node.name}.shape[{axis}]")
    return found


def renamed(error: SparseError, program: torch.export.ExportedProgram) -> SparseError:
    """Return ``error`` with names of extents for PyTorch's symbols."""
    names = {str(symbol): name for symbol, name in names_of_extents(program).items()}
    if not names:
        return error
    parts = (error.where, error.found, error.expected, error.todo)
    told = [_SYMBOL.sub(lambda m: names.get(m[0], m[0]), p) if p else p for p in parts]
    return error if told == list(parts) else type(error)(*told)
