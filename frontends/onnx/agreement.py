"""Shapes that an operator wants, where PyTorch would broadcast another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx.node import Node


class OpenExtentError(InputError):
    """An open extent must be the number ``wanted``; it was traced as ``symbol``."""

    symbol: torch.SymInt
    wanted: int

    def name_of(self, sizes: Mapping[str, int]) -> str | None:
        """Return which extent that is, of those traced at ``sizes``; None if it is not certain."""
        node = self.symbol.node
        names = [name for name, size in sizes.items() if size == node.hint]
        return names[0] if node.expr.is_Symbol and len(names) == 1 else None


def agree(node: Node, name: str, x: Tensor, wanted: Sequence[Any]) -> None:
    """Make the shape of input ``name`` of ``node`` be ``wanted``; open extents become equal.

    Raises
    ------
    InputError
        It is another one.
    OpenExtentError
        An extent is open in one of them and a number in the other.
    """
    error = node.unsound(f"'{name}' has the shape {_text(x.shape)}", _text(wanted))
    if x.dim() != len(wanted):
        raise error
    for pair in zip(x.shape, wanted, strict=True):
        numbers = [n for n in pair if isinstance(n, int)]
        if len(set(numbers)) == 2:
            raise error
        if not numbers:
            torch._check(pair[0] == pair[1], lambda: f"'{name}' differs in an open extent")
        if len(numbers) == 1:
            unlike = OpenExtentError(error.where, error.found, error.expected, error.todo)
            unlike.symbol = next(n for n in pair if not isinstance(n, int))
            unlike.wanted = numbers[0]
            raise unlike


def _text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(str(n) if isinstance(n, int) else 'open' for n in shape)}]"
