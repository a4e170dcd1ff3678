"""Result files as git likes them: one row a line, rounded, each environment once.

A *row* is an element of a list of objects, wherever mappings lead to it. Rows hold medians and
other digests, never samples.

    python -m benchmarks.harness.rows build/demo.json benchmarks/results/demo.json
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DIGITS = 6
"""Significant digits that are kept: a time is never known as exactly."""

ENVIRONMENT = "environment"


def dumps(content: Mapping[str, Any]) -> str:
    """Return the text of a file that holds ``content``."""
    return f"{_lines(_interned(_rounded(content)))}\n"


def loads(text: str) -> dict[str, Any]:
    """Return what :func:`dumps` was given, rounded; any other JSON object as it is."""
    content = json.loads(text)
    known = content.pop(f"{ENVIRONMENT}s", [])
    for row in content.get("rows", []) if known else []:
        row[ENVIRONMENT] = known[row[ENVIRONMENT]]
    return dict(content)


def _interned(content: dict[str, Any]) -> dict[str, Any]:
    """Replace the environments of ``rows`` by their numbers in a list of their own."""
    rows = content.get("rows", [])
    if not rows or not all(ENVIRONMENT in row for row in rows):
        return content
    known: list[Any] = []
    for row in rows:
        if row[ENVIRONMENT] not in known:
            known.append(row[ENVIRONMENT])
    numbered = [{**row, ENVIRONMENT: known.index(row[ENVIRONMENT])} for row in rows]
    return {f"{ENVIRONMENT}s": known, **content, "rows": numbered}


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value


def _lines(value: Any) -> str:
    """Break the line between rows, and between the members of mappings that lead to rows."""
    if not _has_rows(value):
        return json.dumps(value)
    if isinstance(value, dict):
        members = (f"{json.dumps(key)}: {_lines(part)}" for key, part in value.items())
        return "{\n" + ",\n".join(members) + "\n}"
    return "[\n" + ",\n".join(json.dumps(row) for row in value) + "\n]"


def _has_rows(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_rows(part) for part in value.values())
    return isinstance(value, list) and bool(value) and all(isinstance(x, dict) for x in value)


def main(source: str, target: str) -> None:
    """Rewrite a file of JSON in this form."""
    content = loads(Path(source).read_text(encoding="utf-8"))
    Path(target).write_text(dumps(content), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
