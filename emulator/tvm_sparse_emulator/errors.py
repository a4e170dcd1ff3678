"""The one error that is raised on purpose."""

from __future__ import annotations


class EmulatorError(Exception):
    """A kernel that cannot be compiled, loaded or launched: where, and why.

    Parameters
    ----------
    where
        ``"PTX"``, a kernel's name, or an argument.
    found
        What is wrong; it names the line and the instruction if there is one.
    """

    def __init__(self, where: str, found: str) -> None:
        super().__init__(f"{where}: {found}.")
