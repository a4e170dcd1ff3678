"""The picture of the kernel benchmark: speed-up over sparsity, roofline and break-even drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]

LOOKUP_CYCLES = 1.36
"""Cycles of a 512-bit lookup with its multiply-add, which alone takes one (Zen 4; see
docs/design/operators_notebook.md)."""


def best(times: dict[str, dict[str, float]]) -> tuple[str, float] | None:
    """Return name and median of the fastest of several programs, if there are any."""
    found = [(name, taken["median_us"]) for name, taken in times.items()]
    return min(found, key=lambda pair: pair[1]) if found else None


def microseconds(row: Row) -> float:
    """Return the median time of our sparse operator."""
    return float(row["ours_sparse"]["median_us"])


def break_even(rows: list[Row]) -> float:
    """Return the share of zeros from which one layer with one pattern beats its dense operator.

    The operator's time is modelled as ``a + b * (1 - sparsity)``, fitted to ``rows``. Dense is the
    fastest of all, ours too.
    """
    kept = np.array([1 - row["sparsity"] for row in rows])
    times = np.array([microseconds(row) for row in rows])
    # Relative errors count: times span a factor of ten.
    design = np.stack([np.ones_like(kept), kept], axis=1) / times[:, None]
    start, slope = np.linalg.lstsq(design, np.ones_like(times), rcond=None)[0]
    dense = np.median([min(_dense(row)) for row in rows])
    return float(np.clip(1 - (dense - start) / slope, 0, 1))


def break_evens(rows: Iterable[Row]) -> dict[tuple[str, str], float]:
    """Return :func:`break_even` by layer and pattern, where at least three sparsities ran."""
    groups: defaultdict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["case"], row["pattern"]].append(row)
    return {key: break_even(found) for key, found in groups.items() if len(found) > 2}


def draw(rows: list[Row], case: str, path: Path) -> None:
    """Draw the patterns of ``case``, a line each; ``rows`` are those of one number of threads."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tvm-sparse"  # the same picture from the same rows
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.8))
    pictured = [row for row in rows if row["case"] == case]
    for (_, pattern), zeros in break_evens(pictured).items():
        points = sorted(
            (100 * row["sparsity"], _library(row) / microseconds(row))
            for row in pictured
            if row["pattern"] == pattern
        )
        label = f"{pattern}, pays from {zeros:.0%} zeros"
        (line,) = axes.plot(*zip(*points, strict=True), marker="o", markersize=4, label=label)
        level = np.median([_library(row) / min(_dense(row)) for row in pictured])
        axes.plot(100 * zeros, level, marker="x", color=line.get_color())
    if pictured:
        _roofline(axes, pictured)
    axes.axhline(1, color="grey", linestyle="--", linewidth=1)
    axes.annotate("best dense library", (61, 1.05), color="grey", fontsize=8)
    axes.set_yscale("log")
    axes.set_yticks([1, 2, 5, 10, 20], ["1x", "2x", "5x", "10x", "20x"])
    axes.set_xlabel("zeros, % (crosses: break-even with the fastest dense operator)")
    axes.set_ylabel("speed-up over the best dense library")
    axes.set_title(f"{case}, {pictured[0]['threads'] if pictured else 1} thread", fontsize=10)
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _roofline(axes: Any, rows: list[Row]) -> None:
    """Draw what is left if each remaining multiply-add runs as fast as one of our dense operator.

    That one runs at 99 % of the machine's limit, so this is the roofline; lookups have their own.
    """
    ratio = np.median([_library(row) / row["ours_dense"]["median_us"] for row in rows])
    zeros = np.linspace(0.02, 0.955, 200)
    roof = ratio / (1 - zeros)
    for limit, style, text in (
        (roof, ":", "roofline: multiply-adds"),
        (roof / LOOKUP_CYCLES, "-.", "roofline: a lookup each"),
    ):
        axes.plot(100 * zeros, limit, color="grey", linestyle=style, linewidth=1, label=text)


def _library(row: Row) -> float:
    found = best(row["libraries_dense"])
    assert found is not None
    return found[1]


def _dense(row: Row) -> tuple[float, float]:
    return _library(row), float(row["ours_dense"]["median_us"])
