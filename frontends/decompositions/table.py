"""The table of decompositions: which operators stay whole, and the rules of this package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

aten = torch.ops.aten

_KEPT = (aten.linear.default, aten.matmul.default)
"""Decomposed, a product of more than two axes becomes a batched one, with a copy of the weight
for each batch."""

_RULES: dict[Any, Callable[..., Any]] = {}
"""By operator: a decomposition, or ``NotImplemented`` where the operator can stay as it is."""


def decompositions() -> Any:
    """Return the table for :meth:`torch.export.ExportedProgram.run_decompositions`."""
    table = torch.export.default_decompositions()
    for operator in _KEPT:
        table.pop(operator)
    for operator, decomposition in _RULES.items():
        table[operator] = decomposition
    return table


def rule(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that enters a function as the decomposition of ``operators``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _RULES.update(dict.fromkeys(operators, function))
        return function

    return register
