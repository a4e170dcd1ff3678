"""Whole numbers that are divided by zero whatever the inputs are: PyTorch raises an error there."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.converters.corrected import layer_of
from tvm_sparse.frontends.program.computed_weights import MOST, Weights
from tvm_sparse.frontends.program.operator_names import base_name, operator_name

_DIVISIONS = {"div", "floor_divide", "remainder", "fmod"}
"""Operators whose second argument is a divisor."""

_FILLED = {"full": 1, "full_like": 1, "new_full": 2, "scalar_tensor": 0}
"""Operators that fill a tensor with one number: the position of that argument."""

_ZEROS = {"zeros", "zeros_like", "new_zeros"}

_WHOLE = {
    *("_to_copy", "clone", "alias", "detach", "lift_fresh_copy", "expand", "permute", "transpose"),
    *("view", "_unsafe_view", "reshape", "squeeze", "unsqueeze", "t", "flip"),
}
"""Operators whose result holds every element of their first argument."""

_JOINED = {"cat", "stack"}


def refuse_zero_divisors(program: torch.export.ExportedProgram) -> None:
    """Refuse divisions of whole numbers by constants that hold a zero.

    A constant is a number, a tensor that ``program`` holds, or what is computed from these alone.
    Floating-point numbers have infinities and NaN for it.

    Raises
    ------
    InputError
        There is such a division; the message names its layer.
    """
    weights: Weights | None = None
    for node in program.graph.nodes:
        if base_name(node) not in _DIVISIONS or not _is_whole(node):
            continue
        divisor: Any = node.args[1]
        weights = weights or Weights(program)
        zeros = _zeros(divisor, weights)
        if zeros:
            raise InputError(
                layer_of(node),
                f"operator '{operator_name(node.target)}' divides whole numbers by {zeros}",
                "divisors that are not zero: PyTorch raises ZeroDivisionError here",
                "divide by another number, or floating-point numbers, which gives infinities",
            )


def _is_whole(node: fx.Node) -> bool:
    """Whether ``node`` gives integers, at least one if its shape is known."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex():
        return False
    return 0 not in [extent for extent in value.shape if isinstance(extent, int)]


def _zeros(divisor: Any, weights: Weights) -> str:
    """Return what a message calls the zeros among the elements of ``divisor``; empty for none."""
    while isinstance(divisor, fx.Node) and base_name(divisor) in _WHOLE:
        divisor = divisor.args[0]
    if not isinstance(divisor, fx.Node):
        return "zero" if isinstance(divisor, int | float) and int(divisor) == 0 else ""
    name = base_name(divisor)
    if name in _FILLED:
        return _zeros(divisor.args[_FILLED[name]], weights)
    if name in _JOINED:
        parts: Any = divisor.args[0]
        return next(filter(None, (_zeros(part, weights) for part in parts)), "")
    return "zero" if name in _ZEROS else _zeros_computed(divisor, weights)


def _zeros_computed(divisor: fx.Node, weights: Weights) -> str:
    """Return the same for a ``divisor`` that depends on weights alone; empty for another one."""
    value = divisor.meta.get("val")
    if divisor not in weights.sources or not isinstance(value, torch.Tensor):
        return ""
    if divisor not in weights.values and value.numel() > MOST:
        return ""
    with torch.no_grad():
        constant = weights.value(divisor)
    count, elements = int((constant == 0).sum()), constant.numel()
    if count == elements == 1:
        return "zero"
    return f"a constant with zeros ({count} of {elements} elements)" if count else ""
