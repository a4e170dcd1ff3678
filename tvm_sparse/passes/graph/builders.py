"""TVM's builders of blocks, which tell stderr of every block that an error leaves open."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


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
