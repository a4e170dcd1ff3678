"""The table of decompositions: which operators stay whole, and the rules of this package."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.utils import _pytree as pytree

from tvm_sparse.frontends.converters.resize import RESIZES
from tvm_sparse.frontends.converters.sampling import SAMPLERS
from tvm_sparse.frontends.decompositions.torchao import torchao_rules

aten = torch.ops.aten

_KEPT = (
    aten.linear.default,
    aten.matmul.default,
    aten.layer_norm.default,
    aten.group_norm.default,
    aten.complex.default,
    *RESIZES,
    *SAMPLERS,
)
"""Decomposed, a product of more than two axes becomes a batched one, with a copy of the weight
for each batch. Norms would bring their statistics with them, resizing and sampling would compute
their indices."""

_RULES: dict[Any, Callable[..., Any]] = {}
"""By operator: a decomposition, or ``NotImplemented`` where the operator can stay as it is."""


def decompositions(known: Iterable[str] = ()) -> dict[Any, Callable[..., Any]]:
    """Return the table for :meth:`torch.export.ExportedProgram.run_decompositions`.

    Operators whose names are not ``known`` to the importer are taken apart as PyTorch's compiler
    does it, where it does.
    """
    return {**_table(frozenset(known)), **torchao_rules()}


@functools.cache
def _table(known: frozenset[str]) -> dict[Any, Callable[..., Any]]:
    table = dict(torch.export.default_decompositions().items())
    for operator, decomposition in decomposition_table.items():
        if isinstance(operator, OpOverload) and operator.__name__ not in known:
            table.setdefault(operator, decomposition)
    for operator in _KEPT:
        table.pop(operator, None)
    return {**table, **{operator: _for_real(one) for operator, one in _RULES.items()}}


_REAL = {
    *("bessel", "gamma", "matrices", "norms", "order", "orthogonal", "reductions", "scans"),
    *("statistics", "triangular"),
}
"""Files of this package whose rules compute in float64, which has no imaginary part."""


def _for_real(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule that leaves operators of complex numbers as they are."""
    if function.__module__.rpartition(".")[2] not in _REAL:
        return function

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        tensors = pytree.tree_leaves((args, kwargs))
        if any(isinstance(t, torch.Tensor) and t.is_complex() for t in tensors):
            return NotImplemented
        return function(*args, **kwargs)

    return wrapped


def rule(*operators: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that enters a function as the decomposition of ``operators``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _RULES.update(dict.fromkeys(operators, function))
        return function

    return register
