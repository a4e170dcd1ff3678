"""The page and the picture of the kernel benchmark, from ``results/cpu_kernels.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.common import RESULTS

PICTURED = "linear 128x1024 to 1024"


def write(pages: Path) -> None:
    """Write ``cpu_kernels.md`` and ``cpu_kernels.svg`` into ``pages``, if there are results."""
    path = RESULTS / "cpu_kernels.json"
    if not path.exists():
        return
    rows = json.loads(path.read_text())["rows"]
    (pages / "cpu_kernels.md").write_text(page(rows))
    picture([row for row in rows if row["threads"] == 1], pages / "cpu_kernels.svg")


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page: a table for each number of threads, times and ratios."""
    lines = [
        "# Single layers on a CPU",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/cpu_kernels.json`. Medians;",
        "all programs of a row ran in turns, outputs checked against float64. The ratios are the",
        "best library's median over ours: the best of torch, oneDNN with packed weights,",
        "onnxruntime and OpenVINO (dense), of MKL's CSR and BSR and scipy's CSR (sparse). Random",
        "weights, projected patterns.",
        "",
        "![speed-up over sparsity](cpu_kernels.svg)",
        "",
    ]
    for threads in sorted({row["threads"] for row in rows}):
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += _table([row for row in rows if row["threads"] == threads])
    if len({row["threads"] for row in rows}) > 1:
        lines += ["## Two threads over one", "", *_scaling(rows)]
    environments = {json.dumps(row["environment"]): row["environment"] for row in rows}
    lines += ["## Environment", ""]
    for e in environments.values():
        versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
        lines.append(f"* {e['cpu']}, {e['cores']} cores, {e['threads']} threads, {versions}")
    return "\n".join(lines) + "\n"


def _table(rows: list[dict[str, Any]]) -> list[str]:
    head = [
        "layer",
        "pattern",
        "zeros",
        "storage",
        "ours sparse (us)",
        "ours dense (us)",
        "best dense library (us)",
        "best sparse library (us)",
        "over dense",
        "over sparse",
        "GFLOP/s",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        ours = row["ours_sparse"]["median_us"]
        dense, sparse = _best(row["libraries_dense"]), _best(row["libraries_sparse"])
        rate = row["flops"] * (1 - row["sparsity"]) / ours / 1e3
        cells = [
            row["case"],
            row["pattern"],
            f"{row['sparsity']:.4g}",
            row["storage"],
            f"{ours:.1f}",
            f"{row['ours_dense']['median_us']:.1f}",
            f"{dense[1]:.1f} ({dense[0]})",
            f"{sparse[1]:.1f} ({sparse[0]})" if sparse else "",
            f"**{dense[1] / ours:.2f}x**",
            f"{sparse[1] / ours:.2f}x" if sparse else "",
            f"{rate:.0f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _scaling(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the table of what a second thread gives."""
    times = {
        (row["case"], row["pattern"], row["sparsity"], row["threads"]): row["ours_sparse"]
        for row in rows
    }
    lines = ["| layer | pattern | zeros | two threads over one |", "|---|---|---|---|"]
    for (case, pattern, sparsity, threads), one in times.items():
        two = times.get((case, pattern, sparsity, 2))
        if threads == 1 and two:
            ratio = one["median_us"] / two["median_us"]
            lines.append(f"| {case} | {pattern} | {sparsity:.4g} | {ratio:.2f}x |")
    return [*lines, ""]


def _best(times: dict[str, dict[str, float]]) -> tuple[str, float] | None:
    found = [(name, taken["median_us"]) for name, taken in times.items()]
    return min(found, key=lambda pair: pair[1]) if found else None


def picture(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw speed-up over sparsity, one line a pattern; break-even and the roofline marked."""
    import matplotlib
    import numpy as np

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.5))
    pictured = [row for row in rows if row["case"] == PICTURED]
    for pattern in dict.fromkeys(row["pattern"] for row in pictured):
        points = [
            (100 * row["sparsity"], _best(row["libraries_dense"])[1] / _us(row))
            for row in pictured
            if row["pattern"] == pattern
        ]
        axes.plot(*zip(*sorted(points), strict=True), marker="o", label=pattern)
    zeros = np.linspace(0.4, 0.955, 100)
    axes.plot(100 * zeros, 1 / (1 - zeros), color="grey", linestyle=":", linewidth=1)
    axes.annotate("all time saved: 1 / (1 - zeros)", (70, 3.6), color="grey", fontsize=8)
    axes.axhline(1, color="grey", linestyle="--", linewidth=1)
    axes.annotate("best dense library", (41, 1.08), color="grey", fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks([1, 2, 5, 10, 20], ["1x", "2x", "5x", "10x", "20x"])
    axes.set_xlabel("zeros, %")
    axes.set_ylabel("speed-up over the best dense library")
    axes.set_title(f"{PICTURED}, one thread", fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _us(row: dict[str, Any]) -> float:
    return float(row["ours_sparse"]["median_us"])
