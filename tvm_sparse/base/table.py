"""A list of named parts that third parties may extend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from tvm_sparse.errors import InputError

T = TypeVar("T")


class Table(Generic[T]):
    """Parts of one sort by name, in the order in which they were added.

    Parameters
    ----------
    sort
        What errors call a part: ``"kind"``, ``"front end"``.
    built_in
        The parts that are there from the start.
    """

    def __init__(self, sort: str, built_in: Mapping[str, T] | None = None) -> None:
        self.sort = sort
        self._parts = dict(built_in or {})

    def add(self, name: str, part: T) -> None:
        """Add ``part``; a second one of the same name is refused."""
        if name in self._parts:
            raise InputError(
                f"{self.sort} '{name}'",
                "is registered already",
                expected="a new name",
                todo="unregister it first",
            )
        self._parts[name] = part

    def remove(self, name: str) -> None:
        """Remove the part called ``name``; unknown names are ignored."""
        self._parts.pop(name, None)

    def parts(self) -> dict[str, T]:
        """Return all parts by name."""
        return dict(self._parts)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._parts.values()))
