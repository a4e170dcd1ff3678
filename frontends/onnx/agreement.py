"""Shapes that an operator wants, where PyTorch would broadcast another one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental import _config as fx_config

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


def deciding() -> Any:
    """Return a context in which whether an open extent is one is a condition of the program."""
    return fx_config.patch(backed_size_oblivious=False)  # type: ignore[attr-defined]


class BranchError(InputError):
    """A branch that may not be taken does not fit the extents of a trace."""


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
            raise _unlike(error, next(n for n in pair if not isinstance(n, int)), numbers[0])


def require_one(node: Node, axis: int, extent: Any) -> None:
    """Make an open extent of axis ``axis`` of what ``node`` reads be one.

    Raises
    ------
    InputError
        It is not one at the sizes of this trace.
    """
    with deciding():
        if bool(extent == 1):
            return
    error = node.unsound(f"axis {axis} has an open extent", "1")
    raise _unlike(error, extent, 1) if extent.node.expr.is_Symbol else error


def _unlike(error: InputError, symbol: Any, wanted: int) -> OpenExtentError:
    unlike = OpenExtentError(error.where, error.found, error.expected, error.todo)
    unlike.symbol, unlike.wanted = symbol, wanted
    return unlike


def _text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(str(n) if isinstance(n, int) else 'open' for n in shape)}]"
