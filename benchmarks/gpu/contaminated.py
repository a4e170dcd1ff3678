"""Mark times that hold some of the host's in what was measured behind a flush alone.

    python -m benchmarks.gpu.contaminated       # rewrites benchmarks/results/gpu_*.json

Until now a flush of about 65 us had to hide the host, and a contender that needs longer to be
launched was timed by its Python. Such times betray themselves twice. They are longer than the
contender's own ones for as much work or more: more rows of activations, fewer zeros. And they
spread, as those of kernels do not. Where there is nothing to compare with, a wider spread
decides. Rows that were timed otherwise (they say how) are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks.harness.common import load, save

PARTS = (
    *("correct", "limits", "papers", "depthwise", "convolutions", "two_four", "bytes"),
    *("grid", "models"),
)

LONGER, SPREAD, WIDE = 1.25, 1.2, 1.5
"""Times of a contender over its own for as much work or more, its 99th percentile over its median,
and the same where nothing can be compared: more is the host's."""

CASE = re.compile(r"(?P<layer>.*), N=(?P<rows>\d+), (?P<pattern>.*?)(?: (?P<zeros>\d+)%)?")

Row = Mapping[str, Any]


def main() -> None:
    for part in PARTS:
        content = load(f"gpu_{part}")
        if content.get("rows"):
            save(f"gpu_{part}", {**content, "rows": marked(content["rows"])})


def marked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, each with ``contaminated``: contender -> why, where there is one."""
    found = []
    for row in rows:
        if "flush" in row:
            found.append(row)
            continue
        rest = {key: value for key, value in row.items() if key != "contaminated"}
        reasons = dict(_reasons(row, rows))
        found.append({**rest, **({"contaminated": reasons} if reasons else {})})
    return found


def least_known(row: Row, rows: Iterable[Row], name: str) -> tuple[float, str] | None:
    """Return the least time of ``name`` for as much work as in ``row`` or more, and its case.

    None where nothing of it can be compared.
    """
    return min(
        (
            (other["times"][name]["median_us"], other["case"])
            for other in rows
            if other is not row and name in other.get("times", ()) and _at_least(other, row, name)
        ),
        default=None,
    )


def _reasons(row: Row, rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield each contaminated contender of ``row`` and how it is known."""
    for name, taken in row.get("times", {}).items():
        spread = taken["p99_us"] / taken["median_us"]
        known = least_known(row, rows, name)
        if known is None:
            if spread > WIDE:
                yield name, f"its calls spread {spread:.2f}x, and nothing is like it"
            continue
        least, case = known
        ratio = taken["median_us"] / least
        if ratio > LONGER and spread > SPREAD:
            yield name, f"{ratio:.2f}x its own time of '{case}', spread {spread:.2f}x"


def _at_least(other: Row, row: Row, name: str) -> bool:
    """Whether ``other`` gave ``name`` as much work as ``row`` did, or more."""
    there, here = CASE.fullmatch(other["case"]), CASE.fullmatch(row["case"])
    if there is None or here is None or there["layer"] != here["layer"]:
        return False
    if int(there["rows"]) < int(here["rows"]):
        return False
    if name in row.get("libraries_dense", ()):
        return True
    zeros = [int(found["zeros"] or 0) for found in (there, here)]
    return there["pattern"] == here["pattern"] and zeros[0] <= zeros[1]


if __name__ == "__main__":
    main()
