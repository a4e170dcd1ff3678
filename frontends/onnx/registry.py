"""Which function converts which operator, from which version of its operator set on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Converter:
    """How an operator is written in torch.

    Parameters
    ----------
    function
        Takes the node's inputs by position, as tensors (``None`` where left out), and its
        attributes by name; returns a tensor, or a tuple of the node's outputs.
    since
        First version of the operator set that it is right for.
    static
        Those of its parameters that must be known at import; they come as arrays.
    known
        Those that come as arrays where they are known at import, and else as tensors.
    raw
        Whether its inputs come as the values of the graph, known ones as they are.
    reads
        Attributes that it reads from the node itself.
    any_attributes
        Whether it takes attributes that it does not read, because it refuses the node itself.
    """

    function: Callable[..., Any]
    since: int
    static: frozenset[str]
    known: frozenset[str] = frozenset()
    raw: bool = False
    reads: frozenset[str] = frozenset()
    any_attributes: bool = False

    @functools.cached_property
    def inputs(self) -> list[inspect.Parameter]:
        """Parameters that are inputs of the node."""
        return [p for p in self._parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]

    @functools.cached_property
    def keywords(self) -> frozenset[str]:
        """Names of the attributes that it takes as arguments."""
        keywords = inspect.Parameter.KEYWORD_ONLY
        return frozenset(p.name for p in self._parameters if p.kind is keywords) - {"node"}

    @functools.cached_property
    def wants_node(self) -> bool:
        """Whether the function takes the node itself, for its outputs or a refusal."""
        return any(p.name == "node" for p in self._parameters)

    @property
    def _parameters(self) -> list[inspect.Parameter]:
        return list(inspect.signature(self.function).parameters.values())


_CONVERTERS: dict[tuple[str, str], list[Converter]] = {}


def converter(
    *operators: str,
    since: int = 1,
    static: Sequence[str] = (),
    known: Sequence[str] = (),
    raw: bool = False,
    reads: Sequence[str] = (),
    any_attributes: bool = False,
    domain: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that enters a function as the converter of ``operators``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        names = (frozenset(static), frozenset(known))
        entry = Converter(function, since, *names, raw, frozenset(reads), any_attributes)
        for operator in operators:
            versions = _CONVERTERS.setdefault((domain, operator), [])
            versions.append(entry)
            versions.sort(key=lambda found: found.since)
        return function

    return register


def find(operator: str, domain: str, opset: int) -> Converter | None:
    """Return the converter of ``operator`` in version ``opset`` of ``domain``, if there is one."""
    versions = [c for c in _CONVERTERS.get((domain, operator), []) if c.since <= opset]
    return versions[-1] if versions else None
