"""Shapes that an operator wants, where PyTorch would broadcast another one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental import _config as fx_config

from tvm_sparse.errors import InputError
from tvm_sparse.frontends.onnx.node import Node


class UnlikeError(InputError):
    """Extents that have to be equal differ."""


class OpenExtentError(UnlikeError):
    """An open extent, traced as ``symbol``, must be ``wanted``: a number or another extent."""

    symbol: torch.SymInt
    wanted: int | torch.SymInt

    def names(self, shapes: Sequence[Sequence[int | str]]) -> tuple[str | None, int | str | None]:
        """Return which extents of inputs of ``shapes`` these are; None for a computed one."""
        wanted = self.wanted
        found = wanted if isinstance(wanted, int) else _name_of(wanted, shapes)
        return _name_of(self.symbol, shapes), found


def _name_of(symbol: torch.SymInt, shapes: Sequence[Sequence[int | str]]) -> str | None:
    """Return the extent of inputs of ``shapes`` that a symbol stands for."""
    sources = symbol.node.shape_env.var_to_sources.get(symbol.node.expr, ())
    texts = (s.name if isinstance(s.name, str) else s.name() for s in sources)
    places = [found.groups() for text in texts if (found := _PLACE.search(text))]
    extents = [shapes[int(i)][int(axis)] for i, axis in places]
    names = {extent for extent in extents if isinstance(extent, str)}
    return names.pop() if len(names) == 1 else None


_PLACE = re.compile(r"\[(\d+)\]\.size\(\)\[(\d+)\]$")
"""What PyTorch calls an extent of an input: its number and the axis."""


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
        It has another rank.
    UnlikeError
        It is another one.
    OpenExtentError
        An extent is open in one of them and a number, or another open one, in the other.
    """
    error = node.unsound(f"'{name}' has the shape {_text(x.shape)}", _text(wanted))
    if x.dim() != len(wanted):
        raise error
    for pair in zip(x.shape, wanted, strict=True):
        numbers = [n for n in pair if isinstance(n, int)]
        if len(set(numbers)) == 2:
            raise UnlikeError(error.where, error.found, error.expected, error.todo)
        if not numbers:
            nodes: list[Any] = [getattr(n, "node", None) for n in pair]
            differ = nodes[0].hint != nodes[1].hint
            if differ and all(node.expr.is_Symbol for node in nodes):
                raise _unlike(error, *pair)
            torch._check(pair[0] == pair[1], lambda: f"'{name}' differs in an open extent")
        if len(numbers) == 1:
            raise _unlike(error, next(n for n in pair if not isinstance(n, int)), numbers[0])


def require_one(node: Node, axis: int, extent: Any) -> None:
    """Make the extent of axis ``axis`` of what ``node`` reads be one.

    Raises
    ------
    UnlikeError
        It is another number.
    InputError
        It is not one at the sizes of this trace.
    """
    if isinstance(extent, int):
        if extent != 1:
            error = node.unsound(f"axis {axis} has the extent {extent}", "1")
            raise UnlikeError(error.where, error.found, error.expected, error.todo)
        return
    with deciding():
        if bool(extent == 1):
            return
    error = node.unsound(f"axis {axis} has an open extent", "1")
    raise _unlike(error, extent, 1) if extent.node.expr.is_Symbol else error


def _unlike(error: InputError, symbol: Any, wanted: Any) -> OpenExtentError:
    unlike = OpenExtentError(error.where, error.found, error.expected, error.todo)
    unlike.symbol, unlike.wanted = symbol, wanted
    return unlike


def reason(error: Exception, inputs: Sequence[Any]) -> str:
    """Return what an error of torch says, or what the shapes are where it names its symbols."""
    text = (str(error).strip() or type(error).__name__).splitlines()[0]
    if not _SYMBOL.search(text):
        return text
    shapes = [value.shape for value in inputs if isinstance(value, Tensor)]
    found = " and ".join(map(_text, shapes))
    is_open = any(not isinstance(extent, int) for shape in shapes for extent in shape)
    told = "whose open extents do not agree at every size" if is_open else "which do not agree"
    return f"inputs of {found}, {told}"


_SYMBOL = re.compile(r"\b[su]\d+\b|\bsym_\w+|torch\.Size|expanded size")
"""What PyTorch calls an open extent, what is computed of one, and shapes."""


def _text(shape: Sequence[Any]) -> str:
    return f"[{', '.join(str(n) if isinstance(n, int) else 'open' for n in shape)}]"
