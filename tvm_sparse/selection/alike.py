"""Storages that run alike: their numbers of nonzeros differ, but not what is done with each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tvm_sparse.selection.candidate import Candidate

COUNTS = ("entries", "longest", "buckets")
"""Fields of storages that count their nonzeros; the modelled cost knows how many there are."""

WITHIN = 1.05
"""Costs of storages whose times are the same but for noise."""


def form(storage: Any) -> Any:
    """Return a storage's fields without the counts, comparable."""
    if not dataclasses.is_dataclass(storage):
        return storage
    fields = (f.name for f in dataclasses.fields(storage) if f.name not in COUNTS)
    return (type(storage).__name__, *((name, form(getattr(storage, name))) for name in fields))


def alike(some: Sequence[Candidate], others: Sequence[Candidate]) -> bool:
    """Whether candidates of equal forms are modelled to take equal times."""
    pairs = [sorted((a.cost, b.cost)) for a, b in zip(some, others, strict=True)]
    return all(larger <= WITHIN * smaller for smaller, larger in pairs)
