"""The page of open extents: ``results/open_shapes.json``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.common import load

MEDIAN, MOST = 1.10, 1.25
"""What an open program may take of its closed one: in the median, and at most."""


def write(pages: Path) -> None:
    """Write ``open_shapes.md`` into ``pages``, if there are results."""
    found = load("open_shapes")
    if found:
        (pages / "open_shapes.md").write_text(page(found), encoding="utf-8")


def summary(found: Mapping[str, Any]) -> str:
    """Return the median and the largest ratio, as README says it."""
    ratios = [row["ratio"] for row in found["rows"]]
    within = sum(ratio <= MOST for ratio in ratios)
    return (
        f"{statistics.median(ratios):.2f} times in the median of {len(ratios)} networks and shapes,"
        f" {max(ratios):.3f} at most; {within} are within {MOST}"
    )


def page(found: Mapping[str, Any]) -> str:
    """Return the page: a line for each network, numbers and shape."""
    about = found["environment"]
    text = [
        "# Open extents beside closed ones",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/open_shapes.json`, which",
        "`python -m benchmarks.open_shapes` writes: parts of networks, compiled once with open",
        "extents, and once for each shape. Both run in turns on one thread; times are the",
        f"{about['clock']}. Formats were chosen by the model.",
        *_machines(found["rows"]),
        "",
        f"**An open program takes {summary(found)}.**",
        f"The goal is {MEDIAN} in the median, and never above {MOST}.",
        "The error is relative to the largest output: of floats against PyTorch, of bytes against",
        "the closed program, whose roundings differ by single steps.",
        "",
        "| open | numbers | zeros | shape | closed ms | open ms | ratio | error |",
        "|---|---|---:|---|---:|---:|---:|---:|",
    ]
    text += ["| " + " | ".join(_cells(row)) + " |" for row in found["rows"]]
    return "\n".join(text) + "\n"


def _machines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each machine: the networks that it ran."""
    networks: dict[tuple[str, bool], dict[str, None]] = {}
    for row in rows:
        networks.setdefault((row["cpu"], row["shared"]), {})[row["network"]] = None
    return [
        f"{cpu}{', which others used, too' if shared else ''}: {'; '.join(names)}."
        for (cpu, shared), names in networks.items()
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    shape = " x ".join(map(str, row["shape"]))
    times = [f"{row[name]:.3f}" for name in ("closed_ms", "open_ms")]
    zeros, ratio = f"{row['sparsity']:.0%}", f"{row['ratio']:.3f}"
    return [row["network"], row["numbers"], zeros, shape, *times, ratio, f"{row['error']:.1e}"]
