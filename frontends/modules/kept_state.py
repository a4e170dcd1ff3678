"""A module is after a call what it was before: what it keeps for the next call is taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def kept_state(module: nn.Module) -> Iterator[None]:
    """Give the parts of ``module`` back the attributes that they have when this is entered.

    Models keep tables of positions for the next call of the same length. A trace would read what
    another one has kept: extents of its own, or a table of the length at which the model last ran.
    """
    held: list[Any] = [vars(part) for part in module.modules()]
    held += [v for own in held for v in own.values() if isinstance(v, dict | list)]
    before = [(one, one.copy()) for one in held]
    try:
        yield
    finally:
        for one, content in before:
            _give_back(one, content)


def _give_back(one: Any, content: Any) -> None:
    if isinstance(one, list):
        one[:] = content
        return
    one.clear()
    one.update(content)
