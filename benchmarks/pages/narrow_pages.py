"""The page and the picture of layers of bytes and bfloat16: ``results/narrow_kernels.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.cases.kernel_cases import NARROW_LEVELS
from benchmarks.harness.common import load
from benchmarks.pages.kernel_pages import PICTURED
from benchmarks.pages.kernel_picture import best, draw, microseconds

Row = dict[str, Any]


def write(pages: Path) -> None:
    """Write ``narrow_kernels.md`` and its picture into ``pages``, if there are results."""
    rows: list[Row] = load("narrow_kernels").get("rows", [])
    if not rows:
        return
    (pages / "narrow_kernels.md").write_text(page(rows), encoding="utf-8")
    alone = [row for row in rows if (row["threads"], row["numerics"]) == (1, "int8")]
    draw(alone, PICTURED, pages / "narrow_kernels.svg")


def page(rows: list[Row]) -> str:
    """Return the page: a line for each layer, numbers, threads and pattern."""
    head = ["layer", "numbers", "threads", "pattern", "format", "dense"]
    head += [f"{100 * level:.4g} %" for level in NARROW_LEVELS] + ["best library"]
    text = [
        "# Layers of bytes and of bfloat16",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/narrow_kernels.json`.",
        "Time of the best dense library in the same numbers (oneDNN; onnxruntime; of bfloat16,",
        "OpenVINO) over ours, all in turns: more than one is faster. Every output was checked.",
        f"Machine: {rows[0]['environment']['cpu']}. With two threads, layers are left out in whose",
        "turns another program held a core.",
        "",
        "![speed-up of bytes over sparsity](narrow_kernels.svg)",
        "",
        "| " + " | ".join(head) + " |",
        "|---|---|---:|---|---|" + "---:|" * (1 + len(NARROW_LEVELS)) + "---|",
    ]
    for key in dict.fromkeys(map(_key, rows)):
        text.append("| " + " | ".join(_cells([row for row in rows if _key(row) == key])) + " |")
    return "\n".join(text) + "\n"


def _cells(rows: list[Row]) -> list[str]:
    """Return the cells of one line: ratios of medians that ran in the same turns."""
    first = rows[0]
    library = best(first["libraries_dense"])
    assert library is not None
    dense, sparse = library[1] / first["ours_dense"]["median_us"], {}
    for row in rows:
        sparse[row["sparsity"]] = f"{library[1] / microseconds(row):.2f}"
    others = [f"{time} at {100 * s:.4g} %" for s, time in sparse.items() if s not in NARROW_LEVELS]
    return [
        first["case"],
        first["numerics"],
        str(first["threads"]),
        ", ".join([first["pattern"], *others]),
        ", ".join(dict.fromkeys(row["format"] for row in rows)),
        f"{dense:.2f}",
        *(sparse.get(level, "") for level in NARROW_LEVELS),
        f"{library[0]}, {library[1]:.1f} us",
    ]


def _key(row: Row) -> tuple[str, str, int, str]:
    return row["case"], row["numerics"], row["threads"], row["pattern"]
