"""Write docs/operators.md, the table of supported operators, from docs/operators/*.json."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
RESULTS, PAGE = DOCS / "operators", DOCS / "operators.md"
HEAD = """# Supported operators

Other projects test their operators with samples of their own. We compile each sample with
`ts.compile`, run it and compare its outputs with the reference. A sample is *right* if all outputs
have the same type and shape and agree within a bound. It is *refused* if `ts.compile` raises one of
our errors, with the reason below. There is no third outcome: the tests fail on a wrong output, on
any other error and on a crash. `make operators` runs all samples and renews this page.

Samples with an open axis, PyTorch's and ONNX's, are compiled once, the first axis of the first
tensor open, and run at their own size and others: 1, 2, 7, 37 and one more than twice. What is
refused with closed axes too is left out.
"""


def page(records: list[dict[str, Any]]) -> str:
    """Return the page for the content of the JSON files."""
    return "\n".join([HEAD, *(_suite(record) for record in records)])


def _suite(record: dict[str, Any]) -> str:
    rows = {row["operator"]: row for row in record["operators"]}
    right = {name: row.get("right", 0) for name, row in rows.items()}
    refused = {name: row.get("refused", 0) for name, row in rows.items()}
    whole = [name for name in rows if right[name] and not refused[name]]
    partly = [name for name in rows if right[name] and refused[name]]
    done, left = sum(right.values()), sum(refused.values())
    return "\n".join(
        [
            f"## {record['suite']}",
            "",
            f"{record['version']}: {done} of {done + left} samples are right"
            f" ({done / max(1, done + left):.0%}), {left} are refused.",
            "",
            f"### Supported ({len(whole)} operators)",
            "",
            ", ".join(f"`{name}`" for name in whole),
            "",
            f"### Supported in part ({len(partly)} operators)",
            "",
            "| operator | right | refused | because |",
            "|---|---|---|---|",
            *(
                f"| `{name}` | {right[name]} | {refused[name]} | {_text(rows[name]['reasons'])} |"
                for name in partly
            ),
            "",
            f"### Refused ({len(rows) - len(whole) - len(partly)} operators)",
            "",
            "| because | operators |",
            "|---|---|",
            *_by_reason({name: row for name, row in rows.items() if not right[name]}),
            "",
        ]
    )


def _by_reason(rows: dict[str, Any]) -> list[str]:
    """Return a line for each reason, those with most operators first."""
    names: dict[str, list[str]] = {}
    for name, row in rows.items():
        names.setdefault(_text(row["reasons"]), []).append(f"`{name}`")
    ordered = sorted(names.items(), key=lambda item: (-len(item[1]), item[0]))
    return [f"| {reason} | {', '.join(found)} |" for reason, found in ordered]


def _text(reasons: list[str]) -> str:
    """Return ``reasons`` as the text of a table's cell."""
    return "; ".join(re.sub(r"([|<>*_])", r"\\\1", reason) for reason in reasons)


def main() -> None:
    records = [json.loads(p.read_text(encoding="utf-8")) for p in sorted(RESULTS.glob("*.json"))]
    PAGE.write_text(page(records), encoding="utf-8")


if __name__ == "__main__":
    main()
