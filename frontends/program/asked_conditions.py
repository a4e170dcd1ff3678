"""What the code of a model asks of its open extents while it is traced: ``if x.shape[1] == 1``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import symbol_is_type
from torch.utils._sympy.symbol import SymT

CONDITIONS = "tvm_sparse.conditions"
"""Where a program of ours has what its model asked: the ``meta`` of its module."""

_TORCH = str(Path(torch.__file__).parent)
_LAYERS = str(Path(torch.__file__).parent / "nn")
_OWN = str(Path(__file__).parents[1])
_PASSED_ON = (f"{_TORCH}/__init__.py", f"{_TORCH}/fx/experimental")
"""Files of PyTorch that pass on what others ask."""

_REFUSING = {"infer_size"}
"""Functions inside of PyTorch that refuse sizes: of a view with another number of elements."""


@dataclass(frozen=True)
class Condition:
    """What was true of open extents when a model was traced, and where its code asked it."""

    expression: Any
    """Of sympy, in PyTorch's symbols."""
    place: str = ""
    """File and line."""

    @property
    def symbols(self) -> list[Any]:
        """The symbols that it depends on, by their names."""
        return sorted(self.expression.free_symbols, key=str)


class AskedConditions:
    """While it is entered, the conditions that a model's own code asks are noted.

    PyTorch notes those that it cannot answer in general. It takes every extent as two or more, and
    notes nothing where an answer follows from that. What its operators ask is left out: it decides
    how memory is laid out, or is refused.
    """

    def __init__(self) -> None:
        self._found: dict[Condition, Any] = {}
        self._numbers: dict[Condition, Any] = {}
        self.guards: set[Any] = set()
        """What PyTorch noted of them, in its own form."""

    @property
    def found(self) -> list[Condition]:
        """The conditions, each once, in the symbols of the program.

        When they are asked, an extent ``2 * h`` is still a symbol of its own.
        """
        return _named(self._found)

    @property
    def numbers(self) -> list[Condition]:
        """That extents are the numbers that operators, or the model, made of them."""
        return _named(self._numbers)

    def __enter__(self) -> AskedConditions:
        """Begin to note."""
        self._original: Any = SymNode.guard_bool
        self._original_int: Any = SymNode.guard_int
        noting, original, original_int = self, self._original, self._original_int

        def guard_bool(node: SymNode, file: str, line: int) -> bool:
            guards = getattr(node.shape_env, "guards", ())
            known = len(guards)
            result = bool(original(node, file, line))
            noting._note(node, result, [guard.expr for guard in guards[known:]])
            return result

        def guard_int(node: SymNode, file: str, line: int) -> int:
            result = int(original_int(node, file, line))
            if _is_of_extents(node.expr):
                condition = Condition(sympy.Eq(node.expr, result), _model_place())
                noting._numbers.setdefault(condition, node.shape_env)
            return result

        SymNode.guard_bool = guard_bool  # type: ignore[method-assign, assignment]
        SymNode.guard_int = guard_int  # type: ignore[method-assign, assignment]
        return self

    def __exit__(self, *_: object) -> None:
        """Note no more."""
        SymNode.guard_bool = self._original  # type: ignore[method-assign]
        SymNode.guard_int = self._original_int  # type: ignore[method-assign]

    def forget(self) -> None:
        """Leave out what was asked so far: of a trace that is not taken."""
        self._found.clear()
        self._numbers.clear()
        self.guards.clear()

    def _note(self, node: SymNode, result: bool, guards: Iterable[Any]) -> None:
        expression: Any = node.expr
        if not _is_of_extents(expression):
            return
        place = _asking()
        if place:
            condition = Condition(expression if result else ~expression, place)
            self._found.setdefault(condition, node.shape_env)
            self.guards.update(guards)


def _named(found: Mapping[Condition, Any]) -> list[Condition]:
    """Return conditions, each once, in the symbols that their environments have at last."""
    named = (Condition(env.replace(c.expression), c.place) for c, env in found.items())
    return [c for c in dict.fromkeys(named) if c.symbols]


def _is_of_extents(expression: Any) -> bool:
    symbols = getattr(expression, "free_symbols", ())
    return bool(symbols) and all(symbol_is_type(s, SymT.SIZE) for s in symbols)


def _model_place() -> str:
    """Return the file and line of the model that called what asks."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith((_TORCH, _OWN)):
        frame = frame.f_back
    return "" if frame is None else f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"


def _asking() -> str:
    """Return the file and line that asks, if it is no operator of PyTorch, or one that refuses."""
    frame: Any = sys._getframe(3)
    while frame is not None and frame.f_code.co_filename.startswith(_PASSED_ON):
        frame = frame.f_back
    if frame is not None and frame.f_code.co_name in _REFUSING:
        while frame is not None and frame.f_code.co_filename.startswith((_TORCH, _OWN)):
            frame = frame.f_back
    return "" if frame is None else _place(frame.f_code.co_filename, frame.f_lineno)


def place_of(location: Any) -> str:
    """Return the file and line of a guard as PyTorch notes it, if no operator of it asked."""
    return _place(location.filename, location.lineno) if hasattr(location, "lineno") else ""


def _place(file: str, line: int) -> str:
    inside = file.startswith((_TORCH, _OWN)) and not file.startswith(_LAYERS)
    return "" if inside else f"{Path(file).name}, line {line}"


def of_several_extents(environments: Iterable[Any]) -> tuple[list[Condition], list[Condition]]:
    """Return what operators of PyTorch found of several extents: equalities, and inequalities.

    Those of a single extent are in its range. Of several ones PyTorch notes them, and forgets them:
    that ``a + b`` rows are in a table, that there is one window. What says only that something is
    not zero or not one is about memory.
    """
    equal, unequal = list[Condition](), list[Condition]()
    for environment in environments:
        for guard in environment.guards:
            expression = environment.replace(guard.expr)
            if len(expression.free_symbols) < 2 or not _is_of_extents(expression):
                continue
            condition = Condition(expression, "what an operator asks")
            if isinstance(expression, sympy.Eq):
                equal.append(condition)
            elif isinstance(expression, sympy.Rel) and not isinstance(expression, sympy.Ne):
                unequal.append(condition)
    return list(dict.fromkeys(equal)), list(dict.fromkeys(unequal))
