"""The page of open extents: ``results/open_shapes.json``, ``open_compile.json``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.common import load
from benchmarks.pages.machines import machines

MEDIAN, MOST = 1.10, 1.25
"""What an open program may take of its closed one: in the median, and at most."""

COMPILE = 2
"""How many times as long it may take to compile."""


def write(pages: Path) -> None:
    """Write ``open_shapes.md`` into ``pages``, if there are results."""
    found = load("open_shapes")
    if found:
        text = page(found) + to_compile(load("open_compile").get("rows", []))
        (pages / "open_shapes.md").write_text(text, encoding="utf-8")


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the median and the largest ratio."""
    ratios = [row["ratio"] for row in rows]
    within = sum(ratio <= MOST for ratio in ratios)
    return (
        f"{statistics.median(ratios):.2f} times in the median of {len(ratios)} networks and shapes,"
        f" {max(ratios):.3f} at most; {within} are within {MOST}"
    )


def page(found: Mapping[str, Any]) -> str:
    """Return the page: a line for each network, numbers, threads and shape."""
    rows = found["rows"]
    text = [
        "# Open extents beside closed ones",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/open_shapes.json`, which",
        "`python -m benchmarks.open_shapes` writes: parts of networks, compiled once with open",
        "extents, and once for each shape. Both run in turns. Formats were chosen by the model.",
        *machines(rows, "network"),
        "",
        *_summaries(rows),
        f"The goal is {MEDIAN} in the median, and never above {MOST}.",
        "The error is relative to the largest output: of floats against PyTorch, of bytes against",
        "the closed program, whose roundings differ by single steps.",
        "",
        "| open | numbers | zeros | threads | shape | closed ms | open ms | ratio | error |",
        "|---|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    text += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
    beside = [row for row in rows if row.get("peers_ms")]
    return "\n".join([*text, *(_beside_others(beside) if beside else [])]) + "\n"


def to_compile(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the section of what programs take to compile, if there are ``rows``."""
    if not rows:
        return ""
    ratios = [row["ratio"] for row in rows]
    within = sum(ratio <= COMPILE for ratio in ratios)
    text = [
        "",
        "## To compile",
        "",
        "Processor seconds of one program, float32 with 75 % zeros, formats chosen by the model:",
        "`benchmarks/results/open_compile.json`, which `python -m benchmarks.open_compile` writes.",
        *machines(rows, "network"),
        "",
        f"**An open program takes {statistics.median(ratios):.2f} times as long to compile in the "
        f"median, {max(ratios):.2f} at most. {within} of {len(rows)} are within {COMPILE}.**",
        "",
        "| network | closed s | open s | ratio |",
        "|---|---:|---:|---:|",
    ]
    for row in rows:
        times = [f"{row[name]:.2f}" for name in ("closed_s", "open_s", "ratio")]
        text.append(f"| {row['network']} | {' | '.join(times)} |")
    return "\n".join(text) + "\n"


def _summaries(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a sentence for each number of threads."""
    counts = sorted({row["threads"] for row in rows})
    return [
        f"**On {count} thread{'s' * (count > 1)}, an open program takes "
        f"{summary([row for row in rows if row['threads'] == count])}.**"
        for count in counts
    ]


def _cells(row: Mapping[str, Any]) -> list[str]:
    times = [f"{row[name]:.3f}" for name in ("closed_ms", "open_ms")]
    return [*_known(row), *times, f"{row['ratio']:.3f}", f"{row['error']:.1e}"]


def _known(row: Mapping[str, Any]) -> list[str]:
    shape = " x ".join(map(str, row["shape"]))
    return [row["network"], row["numbers"], f"{row['sparsity']:.0%}", str(row["threads"]), shape]


def _beside_others(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of what dense runtimes take in the same numbers, and how ours compare."""
    text = [
        "",
        "## Beside other runtimes",
        "",
        "Each reads a dense file of that shape (closed) and one with open extents. A ratio is what",
        "ours takes of the fastest of them: closed of closed, open of open. Below 1 is faster.",
        "",
        "| open | numbers | zeros | threads | shape | fastest, closed ms | ours of it "
        "| fastest, open ms | ours of it |",
        "|---|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in rows:
        cells = _known(row)
        for which in ("closed", "open"):
            times = {
                name.removesuffix(f", {which}"): ms
                for name, ms in row["peers_ms"].items()
                if name.endswith(f", {which}")
            }
            best = min(times, key=times.__getitem__, default="")
            own = row[f"{which}_ms"]
            cells += (
                [f"{best} {times[best]:.3f}", f"{own / times[best]:.3f}"] if best else ["-"] * 2
            )
        text.append("| " + " | ".join(cells) + " |")
    return text
