"""What passes say of layers: records, of which the reasons of decisions are told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Note:
    """A phrase about one layer, by the layer's name."""

    layer: str
    phrase: str


class Notes:
    """The notes of one compilation, in the order in which they were made."""

    def __init__(self, notes: Iterable[Note] = ()) -> None:
        self._all = list(notes)

    def add(self, layer: str, phrase: str) -> None:
        """Add a note."""
        self._all.append(Note(layer, phrase))

    def of(self, layer: str) -> str:
        """Return all that is said of a layer, in one phrase; empty if nothing is."""
        return "; ".join(note.phrase for note in self._all if note.layer == layer)

    def __iter__(self) -> Iterator[Note]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)
