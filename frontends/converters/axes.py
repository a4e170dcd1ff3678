"""Arguments of operators that are one number, or one for each axis."""

from __future__ import annotations

from collections.abc import Sequence


def for_each_axis(value: int | Sequence[int], rank: int) -> list[int]:
    """Return ``value``, one number or a list of one or of ``rank`` numbers, for each axis."""
    values = [int(v) for v in value] if isinstance(value, Sequence) else [int(value)]
    return values * rank if len(values) == 1 else values
