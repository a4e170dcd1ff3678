"""TVM's builders of blocks: a stack for each thread, and no block that an error leaves open."""

from __future__ import annotations

import contextlib
import threading
from collections import UserList
from collections.abc import Iterator
from typing import Any

from tvm import relax


class _OfThread(threading.local, UserList[Any]):
    """A list that every thread finds empty at first."""


_STACK = _OfThread()
_STACK.extend(relax.BlockBuilder._stack)
relax.BlockBuilder._stack = _STACK
"""The builders that build a function now. TVM has one list for all threads and takes its last entry
for the builder of this thread: two threads that compile would end each other's functions."""


@contextlib.contextmanager
def blocks_ended(owner: Any, name: str = "builder_") -> Iterator[None]:
    """End the blocks that an error leaves open in ``owner``'s builder, or in ``owner`` itself.

    ``name`` is the attribute that has the builder then, which may be another one than before.
    """
    try:
        yield
    except BaseException:
        builder = getattr(owner, name, owner)
        with contextlib.suppress(Exception):  # raised where none is left
            while True:
                builder._end_block()
        raise
