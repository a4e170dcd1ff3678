"""Formats that run alike: their numbers of nonzeros differ, but not what is done with each."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tvm_sparse.selection.candidate import Candidate

COUNTS = ("entries", "longest", "buckets")
"""Fields of formats that count their nonzeros; the modelled cost knows how many there are."""

WITHIN = 1.05
"""Costs of formats whose times are the same but for noise."""


def form(format: Any) -> Any:
    """Return a format's fields without the counts, comparable."""
    if not dataclasses.is_dataclass(format):
        return format
    fields = (f.name for f in dataclasses.fields(format) if f.name not in COUNTS)
    return (type(format).__name__, *((name, form(getattr(format, name))) for name in fields))


def alike(some: Sequence[Candidate], others: Sequence[Candidate]) -> bool:
    """Whether candidates of equal forms are modelled to take equal times."""
    pairs = [sorted((a.cost, b.cost)) for a, b in zip(some, others, strict=True)]
    return all(larger <= WITHIN * smaller for smaller, larger in pairs)
