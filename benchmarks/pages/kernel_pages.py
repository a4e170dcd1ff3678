"""The pages and the picture of the kernel benchmark, from ``results/cpu_kernels.json``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.common import load
from benchmarks.pages.kernel_picture import best, break_evens, draw, microseconds

PICTURED = "linear 128x1024 to 1024"
TOLD = 0.75
"""Zeros that the verdict tells of."""


def write(pages: Path) -> None:
    """Write ``cpu_kernels.md``, its rows and its picture into ``pages``, if there are results."""
    rows = _rows("cpu_kernels")
    if not rows:
        return
    narrow, threads = (_rows(name) for name in ("cpu_kernels_avx2", "cpu_threads"))
    (pages / "cpu_kernels.md").write_text(page(rows))
    (pages / "cpu_kernel_rows.md").write_text(rows_page(rows, narrow, threads))
    draw([row for row in rows if row["threads"] == 1], PICTURED, pages / "cpu_kernels.svg")


def _rows(name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = load(name).get("rows", [])
    return rows


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page of the verdict: what each pattern gains, over all layers."""
    lines = [
        "# Single layers on a CPU",
        "",
        f"**{_verdict(rows)}**",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/cpu_kernels.json`. The best",
        "library is the fastest of torch, oneDNN with packed weights, onnxruntime and OpenVINO on",
        "the dense layer. Weights are random, patterns projected, outputs checked against float64.",
        "All programs of a row ran in turns. Every layer, our dense operators, sparse libraries,",
        "compile times and break-even points: [all rows](cpu_kernel_rows.md).",
        "",
        "![speed-up over sparsity](cpu_kernels.svg)",
        "",
        "Times the speed of the best dense library: median of the layers (least to most).",
        "",
    ]
    counts = sorted({row["threads"] for row in rows})
    spoken = [f"{n} thread{'s' if n > 1 else ''}" for n in counts]
    lines += [
        f"| pattern | zeros | layers | {' | '.join(spoken)} |",
        f"|{'---|' * (3 + len(counts))}",
    ]
    for pattern, zeros in sorted({(row["pattern"], row["sparsity"]) for row in rows}):
        own = [row for row in rows if (row["pattern"], row["sparsity"]) == (pattern, zeros)]
        found = [[_over_dense(row) for row in own if row["threads"] == n] for n in counts]
        cells = [pattern, f"{zeros:.4g}", str(len({row["case"] for row in own}))]
        cells += [
            f"**{median(f):.2f}x** ({min(f):.2f} to {max(f):.2f})" if f else "" for f in found
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *_environments(rows)]) + "\n"


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Return the sentence on what three quarters of zeros gain on one thread, by pattern."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if row["threads"] == 1 and row["sparsity"] == TOLD:
            found.setdefault(row["pattern"], []).append(_over_dense(row))
    gains = [f"{pattern} {median(own):.1f} times" for pattern, own in sorted(found.items())]
    return (
        f"With {TOLD * 100:.0f} % zeros, on one thread, layers run in the median this much faster "
        f"than the best dense library: {', '.join(gains)}."
    )


def _over_dense(row: dict[str, Any]) -> float:
    """Return how many times as fast as the best dense library ours is."""
    return best(row["libraries_dense"])[1] / microseconds(row)


def rows_page(
    rows: list[dict[str, Any]], avx2: list[dict[str, Any]], scaling: list[dict[str, Any]]
) -> str:
    """Return the page of all rows: by number of threads, and of operators built for AVX2."""
    lines = [
        "# Single layers on a CPU, all rows",
        "",
        "What stands behind [single layers](cpu_kernels.md). Medians of microseconds. The best",
        "sparse library is the fastest of MKL's CSR and BSR and scipy's CSR. GFLOP/s count",
        "nonzeros only; compile time is that of one operator on one core, code what its",
        "instructions take.",
        "",
    ]
    for threads in sorted({row["threads"] for row in rows}):
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += _table([row for row in rows if row["threads"] == threads])
    if scaling:
        lines += ["## Two threads over one", "", *_scaling(scaling)]
    lines += ["## Break-even", "", *_break_even(rows)]
    if avx2:
        lines += ["## Built for AVX2", "", *_rates(avx2)]
    return "\n".join([*lines, *_environments(rows)]) + "\n"


def _environments(rows: list[dict[str, Any]]) -> list[str]:
    """Return the section on processors and versions, one line each."""
    lines = []
    for e in (row["environment"] for row in rows):
        versions = ", ".join(f"{name} {version}" for name, version in e["versions"].items())
        lines.append(f"* {e['cpu']}, {e['cores']} cores, {e['threads']} threads, {versions}")
    return ["## Environment", "", *dict.fromkeys(lines)]


def _table(rows: list[dict[str, Any]]) -> list[str]:
    head = [
        "layer",
        "pattern",
        "zeros",
        "format",
        "ours sparse (us)",
        "ours dense (us)",
        "best dense library (us)",
        "best sparse library (us)",
        "over dense",
        "over sparse",
        "GFLOP/s",
        "compiled in (s)",
        "code (KB)",
    ]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        ours = microseconds(row)
        dense, sparse = best(row["libraries_dense"]), best(row["libraries_sparse"])
        rate = row["flops"] * (1 - row["sparsity"]) / ours / 1e3
        cells = [
            row["case"],
            row["pattern"],
            f"{row['sparsity']:.4g}",
            row["format"],
            f"{ours:.1f}",
            f"{row['ours_dense']['median_us']:.1f}",
            f"{dense[1]:.1f} ({dense[0]})",
            f"{sparse[1]:.1f} ({sparse[0]})" if sparse else "",
            f"**{dense[1] / ours:.2f}x**",
            f"{sparse[1] / ours:.2f}x" if sparse else "",
            f"{rate:.0f}",
            # Older rows lack these two.
            f"{row['compile_seconds']:.1f}" if "compile_seconds" in row else "",
            f"{row['code_bytes'] / 1024:.0f}" if "code_bytes" in row else "",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _scaling(rows: Iterable[dict[str, Any]]) -> list[str]:
    """Return the table of what a second thread gives."""
    lines = [
        "From `benchmarks/results/cpu_threads.json`: one process, one thread and two in turns.",
        "",
        "| layer | pattern | zeros | format | one (us) | two (us) | two over one |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        times = row["median_us"]
        lines.append(
            f"| {row['case']} | {row['pattern']} | {row['sparsity']:.4g} | {row['format']} "
            f"| {times['1']:.1f} | {times['2']:.1f} | {row['ratio']:.2f}x |"
        )
    return [*lines, ""]


def _break_even(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of the zeros from which a pattern pays, on one thread."""
    lines = [
        "Zeros from which our sparse operator beats the fastest dense one, ours or a library's, on",
        "one thread: time fitted as `a + b * (1 - zeros)`.",
        "",
        "| layer | pattern | pays from |",
        "|---|---|---|",
    ]
    found = break_evens(row for row in rows if row["threads"] == 1)
    lines += [f"| {case} | {pattern} | {zeros:.0%} |" for (case, pattern), zeros in found.items()]
    return [*lines, ""]


def _rates(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of how fast nonzeros run, against our dense operator of the same build."""
    lines = [
        "Ours built for `haswell` on the same machine; GFLOP/s of nonzeros, and of our dense.",
        "",
        "| layer | pattern | zeros | format | sparse (GFLOP/s) | dense (GFLOP/s) | share |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        sparse = row["flops"] * (1 - row["sparsity"]) / microseconds(row) / 1e3
        dense = row["flops"] / row["ours_dense"]["median_us"] / 1e3
        lines.append(
            f"| {row['case']} | {row['pattern']} | {row['sparsity']:.4g} | {row['format']} "
            f"| {sparse:.0f} | {dense:.0f} | {sparse / dense:.0%} |"
        )
    return [*lines, ""]
