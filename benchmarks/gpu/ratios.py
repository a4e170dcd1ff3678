"""What a row of times says: our best contender, the best library, and whether a ratio stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.gpu.contaminated import least_known

Row = Mapping[str, Any]

MARGIN = 2.0
"""What a contender takes for more work over what it may take for less: half the values that are
not zero, say."""


@dataclass(frozen=True)
class Ratio:
    """Our time beside the best library's; ``value`` is None where no ratio can be told."""

    ours: str
    ours_us: float
    library: str
    library_us: float
    value: float | None
    left_out: tuple[str, ...]
    """Contenders whose times hold some of the host's."""


def ratio_of(row: Row, rows: Sequence[Row]) -> Ratio:
    """Return the ratio of ``row``, one of ``rows``, without contenders that are contaminated.

    It is withdrawn if one of those may be the best: if nothing is known of it, or what it took for
    as much work or more is less than :data:`MARGIN` times the best of the others.
    """
    times = {name: taken["median_us"] for name, taken in row["times"].items()}
    marked = set(row.get("contaminated", ()))

    def best(own: bool) -> tuple[str, float, bool]:
        side = {n: us for n, us in times.items() if n.startswith("ours") == own}
        clean = {n: us for n, us in side.items() if n not in marked} or side
        name = min(clean, key=clean.__getitem__)
        return (
            name,
            clean[name],
            name not in marked
            and not any(
                _may_beat(row, rows, other, clean[name]) for other in side if other in marked
            ),
        )

    ours, ours_us, ours_stand = best(True)
    library, library_us, library_stands = best(False)
    value = library_us / ours_us if ours_stand and library_stands else None
    return Ratio(ours, ours_us, library, library_us, value, tuple(n for n in times if n in marked))


def _may_beat(row: Row, rows: Sequence[Row], name: str, best_us: float) -> bool:
    known = least_known(row, rows, name)
    return known is None or known[0] < MARGIN * best_us
