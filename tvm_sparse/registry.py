"""One record a sparsity kind: its pattern, its storage formats, its operators and schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Pattern


@dataclass(frozen=True)
class Kind:
    """A sparsity kind, complete: what is zero, how the rest is stored, computed and scheduled.

    ``formats`` are classes with ``encode``/``decode``/``nbytes``; ``operators`` map an operator
    name (``"linear"``, ``"conv2d"``) to a builder of its TIR; ``schedules`` are rules with
    ``apply(func, target, tunable)``. A kind may leave the last two empty: its layers then stay
    dense, with that reason.
    """

    name: str
    pattern: type[Pattern]
    formats: tuple[type, ...] = ()
    operators: dict[str, Callable[..., Any]] = field(default_factory=dict)
    schedules: tuple[Any, ...] = ()


_KINDS: dict[str, Kind] = {}


def register(kind: Kind) -> Kind:
    """Add ``kind``; a second kind of the same name is refused."""
    if kind.name in _KINDS:
        raise InputError(
            f"kind '{kind.name}'", "is registered already", "a new name", "unregister it first"
        )
    _KINDS[kind.name] = kind
    return kind


def unregister(name: str) -> None:
    """Remove the kind called ``name``; unknown names are ignored."""
    _KINDS.pop(name, None)


def kinds() -> dict[str, Kind]:
    """Return all registered kinds by name, in registration order."""
    return dict(_KINDS)
