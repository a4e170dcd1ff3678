"""The picture of the rooms in docs/design/architecture.md, from the real imports.

    python tools/rooms.py

An arrow means "imports"; one that follows from others is left out.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from staged_tree import ROOT, stage

PAGE = ROOT / "docs" / "design" / "architecture.md"
BEGIN, END = "<!-- rooms: made by tools/rooms.py -->\n", "<!-- end of rooms -->\n"
SMALL = {"base", "errors"}
"""What nearly everything imports, without arrows to it."""

ABOVE = {"cli", "compat", "demo", "dynamo", "emulation", "planning", "report", "testing"}
"""What stands on top and is not a part of compiling."""

IMPORTS = """
import json, sys
sys.meta_path = [f for f in sys.meta_path if "Redirecting" not in type(f).__name__]
sys.path.insert(0, "")
from grimp import build_graph
graph = build_graph("tvm_sparse", cache_dir=None)
pairs = {
    (one.split(".")[1], other.split(".")[1])
    for one in graph.modules if "." in one
    for other in graph.find_modules_directly_imported_by(one) if "." in other
}
print(json.dumps(sorted(pair for pair in pairs if pair[0] != pair[1])))
"""
"""Without the editable install's finder, which would answer before ``sys.path`` does."""


def room_imports() -> list[tuple[str, str]]:
    """Return which room imports which, modules at the top level being rooms of their own."""
    with tempfile.TemporaryDirectory() as tree:
        stage(Path(tree))
        done = subprocess.run(
            [sys.executable, "-c", IMPORTS], cwd=tree, capture_output=True, text=True, check=True
        )
    return [(one, other) for one, other in json.loads(done.stdout)]


def reduced(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the pairs that do not follow from others; there must be no circle."""
    below: dict[str, set[str]] = {}
    for one, other in pairs:
        below.setdefault(one, set()).add(other)

    def reaches(start: str, goal: str) -> bool:
        return any(n == goal or reaches(n, goal) for n in below.get(start, ()))

    return [
        (one, other)
        for one, other in pairs
        if not any(n != other and reaches(n, other) for n in below[one])
    ]


def mermaid(pairs: list[tuple[str, str]]) -> str:
    """Return the picture of ``pairs`` as a Mermaid graph."""
    left_out = SMALL | ABOVE
    shown = [pair for pair in pairs if not left_out.intersection(pair)]
    rooms = sorted({room for pair in shown for room in pair})
    lines = ["graph TD", *(f"  {room}" for room in rooms)]
    lines += [f"  {one} --> {other}" for one, other in reduced(shown)]
    return "```mermaid\n" + "\n".join(lines) + "\n```\n"


def page(text: str, picture: str) -> str:
    """Return the text of the page with ``picture`` in its place."""
    head, rest = text.split(BEGIN)
    return head + BEGIN + picture + END + rest.split(END)[1]


def main() -> None:
    """Renew the picture."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(page(text, mermaid(room_imports())), encoding="utf-8")


if __name__ == "__main__":
    main()
