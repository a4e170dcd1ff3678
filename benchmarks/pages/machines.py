"""Which machine gave which rows of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def machines(rows: Sequence[Mapping[str, Any]], name: str) -> list[str]:
    """Return a sentence for each machine and clock: what it ran, by the field ``name``."""
    ran: dict[tuple[str, bool, str], dict[str, None]] = {}
    for row in rows:
        ran.setdefault((row["cpu"], row["shared"], row.get("clock", "")), {})[row[name]] = None
    return [
        f"{cpu}{', which others used, too' if shared else ''}{clock and f', {clock}'}: "
        f"{'; '.join(names)}."
        for (cpu, shared, clock), names in ran.items()
    ]
