"""Errors that a user can act on: where, what was found, what was expected, what to do."""

from __future__ import annotations


class SparseRuntimeError(Exception):
    """Base of every error that is raised on purpose, by the compiler too.

    Parameters
    ----------
    where
        A file, a tensor's or layer's name, or an option.
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

    def __reduce__(self) -> tuple[type[SparseRuntimeError], tuple[str, str, str, str]]:
        """Return what makes an equal error in another process."""
        return type(self), (self.where, self.found, self.expected, self.todo)


class RuntimeArtifactError(SparseRuntimeError):
    """An artifact that is damaged, foreign, or made for another machine or version."""


class TensorError(SparseRuntimeError, ValueError):
    """A tensor given to a library that does not fit its specification."""


def shown(value: object, limit: int = 60) -> str:
    """Return ``value`` as short ASCII text that any terminal can print."""
    text = ascii(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
