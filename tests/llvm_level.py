"""The level at which LLVM compiles for a test; it takes a third of the time of a small network."""

from __future__ import annotations

from typing import Any

import pytest

from tvm_sparse.base import targets

LOW = 0
"""Code of this level computes the same, and is made in less than half of the time."""

ROOMS = frozenset({"dynamo", "frontends", "passes", "planning", "quantization"})
"""Rooms that ask what is computed, not how."""

AS_USERS = ("optimised", "slow")
"""Marks of their tests that have the level which users have, like all tests elsewhere."""

_for_users = targets._llvm


def set_level(item: pytest.Item) -> None:
    """Let this machine's targets have the level that ``item`` needs."""
    marked = any(item.get_closest_marker(name) for name in AS_USERS)
    low = item.nodeid.split("/")[1] in ROOMS and not marked
    targets._llvm = _low if low else _for_users


def _low(triple: str, **options: Any) -> Any:
    return _for_users(triple, **options, **{"opt-level": LOW})
