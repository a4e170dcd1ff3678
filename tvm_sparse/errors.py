"""Errors that a user can act on: where, what was found, what was expected, what to do."""

from __future__ import annotations


class SparseError(Exception):
    """Base of every error this project raises on purpose.

    Parameters
    ----------
    where
        The layer's fully qualified name, a file, or an option.
    found
        What is there.
    expected
        What should be there.
    todo
        What the reader can do about it.
    """

    def __init__(self, where: str, found: str, expected: str = "", todo: str = "") -> None:
        self.where, self.found, self.expected, self.todo = where, found, expected, todo
        parts = [f"{where}: {found}"]
        if expected:
            parts.append(f"expected {expected}")
        if todo:
            parts.append(todo)
        super().__init__("; ".join(parts) + ".")


class InputError(SparseError):
    """A model, weight, option or file that cannot be used as it is."""


class UnsupportedError(SparseError):
    """A sound input that this version does not compile."""


class ArtifactError(SparseError):
    """An artifact directory that is damaged, foreign or made for another machine."""
