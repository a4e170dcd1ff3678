"""The table of functions of PyTorch that are written otherwise where an extent is open."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

FORMS: dict[Any, Callable[..., Any]] = {}
"""By function: what writes it, or ``NotImplemented`` where no extent that it asks for is open."""


LEFT_OF_MULTIPLES: set[Any] = set()
"""Functions that are PyTorch's own where multiples of dimensions are open."""


def rewrites(
    *names: str, of_multiples: bool = True
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a form of functions by their names in ``torch``, and of methods of that name.

    One that is not ``of_multiples`` is left to PyTorch where multiples of dimensions are open.
    """

    def enter(form: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            found = functools.reduce(getattr, name.split("."), torch)
            FORMS[found] = form
            if not of_multiples:
                LEFT_OF_MULTIPLES.add(found)
            method = getattr(torch.Tensor, name, None)
            if method is not None:
                FORMS[method] = form
        return form

    return enter


def is_open(*extents: Any) -> bool:
    """Whether any of ``extents`` is open."""
    return any(isinstance(extent, torch.SymInt) for extent in extents)


def is_same(size: Any, extent: Any) -> bool:
    """Whether two extents are equal at every size."""
    return is_known(size == extent)


def is_known(condition: Any) -> bool:
    """Whether a condition on extents holds at every size, as far as PyTorch knows."""
    return bool(statically_known_true(condition))
