"""Which operators of a program are of one kind: taken apart, they become the same."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree


def kind_of(node: fx.Node) -> str:
    """Return what decides how ``node`` is taken apart: its operator, and what it knows of operands.

    These are numbers, extents, and all of a tensor but its elements; a tensor whose elements are
    known is a kind of its own. Operands that are one tensor are so in all nodes of a kind.
    """
    places = {operand: place for place, operand in enumerate(node.all_input_nodes)}

    def described(operand: fx.Node) -> str:
        leaves, shape = pytree.tree_flatten(operand.meta["val"])
        return f"{places[operand]} {shape} {[_described(leaf) for leaf in leaves]}"

    return f"{node.target} {fx.map_arg((node.args, node.kwargs), described)}"


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {value}"
    if getattr(value, "constant", None) is not None:
        return f"{id(value)}"
    layout = (*value.shape, *value.stride(), value.storage_offset())
    more = (value.dtype, value.device, value.layout, value.is_conj(), value.is_neg())
    return f"{type(value).__name__} {[str(n) for n in layout]} {more}"
