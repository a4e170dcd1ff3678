"""Which part of a file a user asks for: up to which values, with which inputs fixed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm_sparse.errors import InputError


@dataclass(frozen=True)
class Part:
    """A part of a graph whose values have names.

    Parameters
    ----------
    outputs
        Names of the values that it returns, in order; empty for the outputs of the whole.
    constants
        Inputs that are constants instead, by name: numbers, or arrays of the input's shape.
    """

    outputs: tuple[str, ...] = ()
    constants: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.outputs or self.constants)


def part_of(outputs: Sequence[str] | None, constants: Mapping[str, Any] | None) -> Part:
    """Return the part that the arguments of :func:`~tvm_sparse.frontends.load.load` name.

    Raises
    ------
    InputError
        ``outputs`` is empty or no sequence of names, or names one twice; ``constants`` is no
        mapping of names.
    """
    names = () if outputs is None else outputs
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError("outputs", f"are {outputs!r}", "a list of names", "outputs=['name']")
    repeated = next((name for name in names if list(names).count(name) > 1), None)
    if repeated is not None or (outputs is not None and not names):
        found = "are none" if repeated is None else f"name '{repeated}' twice"
        raise InputError("outputs", found, "each name once")
    if constants is not None and not isinstance(constants, Mapping):
        raise InputError("constants", f"are a {type(constants).__name__}", "values by names")
    return Part(tuple(names), dict(constants or {}))


def unknown(place: str, name: str, known: Iterable[str], what: str) -> InputError:
    """Return the error that ``name`` is none of the ``known`` ones, with those next to it."""
    every = [*known]
    near = difflib.get_close_matches(name, every, 3, 0.5) or every[:3]
    listed = ", ".join(f"'{found}'" for found in near) or "none"
    return InputError(place, f"name '{name}', which is no {what}", f"one like {listed}")
