"""Memory that is free goes back to the system."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable


def give_back() -> None:
    """Return freed memory to the system, where the C library can be asked to (glibc).

    It would keep blocks below some 32 MB, and a network has hundreds of them: without this a
    compilation holds the weights of all its phases at once.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@functools.cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
