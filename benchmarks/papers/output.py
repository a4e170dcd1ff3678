"""Write a reproduced table as JSON, Markdown and picture, side by side."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.common import RESULTS, environment, load, save

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#999999")
"""Okabe and Ito's palette: told apart also by readers who do not see all colors."""


def write(
    name: str,
    content: Mapping[str, Any],
    markdown: str,
    draw: Callable[[Any], None],
    size: tuple[float, float] = (7, 4),
) -> None:
    """Write ``results/papers/<name>`` as ``.json``, ``.md`` and ``.png``.

    ``draw`` fills a fresh figure. The environment of the run is added to ``content``.
    """
    save(f"papers/{name}", {**content, "environment": environment(1)})
    render(name, markdown, draw, size)


def render(
    name: str, markdown: str, draw: Callable[[Any], None], size: tuple[float, float] = (7, 4)
) -> None:
    """Write ``.md`` and ``.png`` beside a ``.json`` that is there already."""
    from matplotlib.figure import Figure

    path = RESULTS / "papers" / f"{name}.json"
    machine = _machine(earlier(name)["environment"])
    made = f"Made by `python -m benchmarks.papers.{name}` from [{path.name}]({path.name})."
    page = f"{markdown}\n\n{made} {machine}\n"
    path.with_suffix(".md").write_text(page)
    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    figure.savefig(path.with_suffix(".png"), dpi=120, metadata={"Software": None})
    tell(f"wrote {_short(path)}, .md and .png")


def _machine(environment: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in environment["versions"].items())
    return (
        f"{environment['cpu']}, Python {environment['python']}, {versions}, {environment['date']}."
    )


def earlier(name: str) -> dict[str, Any]:
    """Return what ``results/papers/<name>.json`` holds from earlier runs, if it exists."""
    return load(f"papers/{name}")


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a Markdown table; numbers are right-aligned."""
    numeric = [
        all(isinstance(row[i], int | float) or str(row[i])[:1].isdigit() for row in rows)
        for i in range(len(header))
    ]
    lines = [
        "| " + " | ".join(header) + " |",
        "|" + "|".join("---:" if right else "---" for right in numeric) + "|",
    ]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def tell(message: str) -> None:
    """Report progress on stderr."""
    print(message, file=sys.stderr, flush=True)


def _short(path: Path) -> str:
    return str(path.relative_to(RESULTS.parent.parent))
