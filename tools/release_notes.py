"""Print a release's section of CHANGELOG.md, or say that there is none."""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parent.parent / "CHANGELOG.md"


def section(text: str, version: str) -> str | None:
    """Return what the changelog says of ``version``; None if nothing."""
    heading = rf"^## \[?{re.escape(version)}\]?(?:[ -][^\n]*)?\n(.*?)(?=^## |\Z)"
    found = re.search(heading, text, re.MULTILINE | re.DOTALL)
    return (found[1].strip() or None) if found else None


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: release_notes.py VERSION", file=sys.stderr)
        return 2
    notes = section(CHANGELOG.read_text(encoding="utf-8"), arguments[0].removeprefix("v"))
    if notes is None:
        print(f"error: {CHANGELOG.name} has no section {arguments[0]}", file=sys.stderr)
        return 1
    print(notes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
