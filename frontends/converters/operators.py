"""The table of our own converters: PyTorch operators that TVM does not know, or gets wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

Converter = Callable[[Any, torch.fx.Node], Any]
"""Called with the importer and a node of the graph; returns a Relax expression, or ``None`` where
TVM's own converter is right."""

CONVERTERS: dict[str, Converter] = {}


def converter(*names: str) -> Callable[[Converter], Converter]:
    """Return a decorator that enters a function as the converter of the operators ``names``."""

    def register(function: Converter) -> Converter:
        CONVERTERS.update(dict.fromkeys(names, function))
        return function

    return register


def filled(given: Sequence[Any], defaults: Sequence[Any]) -> list[Any]:
    """Return the arguments ``given``, the rest from ``defaults``."""
    return [*given, *defaults[len(given) :]]


def called(importer: Any, node: torch.fx.Node, define: Callable[..., Any], *operands: Any) -> Any:
    """Call the function that ``define`` describes, by the name of the operator of ``node``."""
    name = str(node.target).split(".")[1]
    call = importer.block_builder.call_te(define, *operands, primfunc_name_hint=name)
    return emit(importer, call)


def emit(importer: Any, expr: Any) -> Any:
    """Add an expression to the program under construction and return its variable."""
    return importer.block_builder.emit(expr)


def dtype_of(node: torch.fx.Node) -> str:
    """Return the type of the result of ``node``."""
    return str(node.meta["val"].dtype).removeprefix("torch.")
