"""What to call open extents in the words of who calls the model: ``x.shape[1]``."""

from __future__ import annotations

import re
from typing import Any

import torch

from tvm_sparse.errors import SparseError

_SYMBOL = re.compile(r"\bs\d+\b")
"""What PyTorch calls an extent."""


def names_of_extents(program: torch.export.ExportedProgram) -> dict[Any, str]:
    """Return the name of each symbol: the input and axis that has it, or a multiple of it."""
    found, quotients = dict[Any, str](), dict[Any, str]()
    for node in program.graph.find_nodes(op="placeholder"):
        for axis, extent in enumerate(getattr(node.meta.get("val"), "shape", ())):
            if isinstance(extent, torch.SymInt):
                expr, place = extent.node.expr, f"{node.name}.shape[{axis}]"
                if expr.is_Symbol:
                    found.setdefault(expr, place)
                elif len(expr.free_symbols) == 1:
                    (symbol,) = expr.free_symbols
                    quotients.setdefault(symbol, _quotient(expr, symbol, place))
    return quotients | found


def _quotient(extent: Any, symbol: Any, place: str) -> str:
    """Return what ``symbol`` is of an extent that is a multiple of it, and a number."""
    rest = extent.subs(symbol, 0)
    step = extent.subs(symbol, 1) - rest
    return f"({place} // {step})" if rest == 0 else f"(({place} - {rest}) // {step})"


def renamed(error: SparseError, program: torch.export.ExportedProgram) -> SparseError:
    """Return ``error`` with names of extents for PyTorch's symbols."""
    names = {str(symbol): name for symbol, name in names_of_extents(program).items()}
    if not names:
        return error
    parts = (error.where, error.found, error.expected, error.todo)
    told = [_SYMBOL.sub(lambda m: names.get(m[0], m[0]), p) if p else p for p in parts]
    return error if told == list(parts) else type(error)(*told)
