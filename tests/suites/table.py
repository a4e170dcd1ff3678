"""Results of a suite as one row an operator, and the file in the repository that keeps them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.harness.rows import dumps, loads
from tests.suites.outcomes import RIGHT, Result

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "operators"
LONGEST = 160
"""Characters of a reason that are kept."""

Rows = dict[str, dict[str, Any]]


def rows_of(results: Iterable[Result]) -> Rows:
    """Return by operator how many cases had each outcome, and why those not right were not."""
    counts: dict[str, Counter[str]] = {}
    reasons: dict[str, list[str]] = {}
    for result in results:
        counts.setdefault(result.operator, Counter())[result.outcome] += 1
        if result.outcome != RIGHT:
            reason = " ".join(result.reason.split())[:LONGEST]
            reasons.setdefault(result.operator, []).append(reason)
    return {
        name: {
            **{outcome: count for outcome, count in sorted(counts[name].items())},
            **({"reasons": list(dict.fromkeys(reasons[name]))} if name in reasons else {}),
        }
        for name in sorted(counts)
    }


def totals(rows: Rows) -> Counter[str]:
    """Return how many cases had each outcome."""
    found: Counter[str] = Counter()
    for row in rows.values():
        found.update({key: count for key, count in row.items() if key != "reasons"})
    return found


def recorded(name: str) -> Rows:
    """Return the rows that ``docs/operators/<name>.json`` keeps."""
    rows = loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["operators"]
    return {row.pop("operator"): row for row in rows}


def record(name: str, suite: str, version: str, rows: Rows) -> None:
    """Write ``rows`` to ``docs/operators/<name>.json``; ``suite`` and ``version`` say of what."""
    FOLDER.mkdir(exist_ok=True)
    operators = [{"operator": operator, **row} for operator, row in rows.items()]
    content = {"suite": suite, "version": version, "operators": operators}
    (FOLDER / f"{name}.json").write_text(dumps(content), encoding="utf-8")
