"""One record a sparsity kind: its pattern, its storage formats, its operators and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_sparse.errors import InputError
from tvm_sparse.patterns.base import Pattern


@dataclass(frozen=True)
class Kind:
    """A sparsity kind, complete: what is zero, how the rest is stored, computed and scheduled.

    Parameters
    ----------
    name
        What reports and ``Config.force`` call it.
    pattern
        The mask family.
    formats
        Storage classes with ``encode``/``decode``/``nbytes``.
    operators
        ``(contraction, matrix, target) -> candidates``: yields an
        :class:`~tvm_sparse.ops.candidates.Candidate` for each storage that fits the weight matrix
        ``(features, taps * columns)`` (columns in ``hwi`` order), or a sentence that says why one
        does not. Left out, layers of this kind stay dense, with that reason.
    schedules
        Rules with ``apply(func, target, tunable)``, tried before the built-in ones.
    """

    name: str
    pattern: type[Pattern]
    formats: tuple[type, ...] = ()
    operators: Callable[[Any, np.ndarray, Any], Iterable[Any]] | None = None
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
    import tvm_sparse.kinds  # noqa: F401 - registers the built-in kinds

    return dict(_KINDS)
