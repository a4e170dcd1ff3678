"""Write the pages under docs/performance from the JSON files in benchmarks/results.

    python -m benchmarks.pages

Every figure on those pages comes from here; nothing is typed by hand.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from benchmarks import gpu_pages, kernel_pages, tuning_pages
from benchmarks.common import RESULTS
from benchmarks.papers import pages as paper_pages

PAGES = Path(__file__).resolve().parents[1] / "docs" / "performance"
SHARES = (
    ("first and unpruned layers", "dense"),
    ("sparse layers", ("balanced", "block", "unstructured", "joint", "depthwise_taps")),
    ("depthwise layers", "depthwise"),
    ("products of activations", "matmul"),
    ("softmax and layer norm", ("softmax", "layer_norm")),
    ("padding", "pad"),
)


def main() -> None:
    PAGES.mkdir(parents=True, exist_ok=True)
    path = RESULTS / "cpu_models.json"
    if path.exists():
        rows = json.loads(path.read_text())["rows"]
        (PAGES / "cpu_models.md").write_text(models_page(rows))
        models_picture(rows, PAGES / "cpu_models.svg")
    kernel_pages.write(PAGES)
    tuning_pages.write(PAGES)
    gpu_pages.write(PAGES)
    paper_pages.write(PAGES)


def models_page(rows: list[dict[str, Any]]) -> str:
    """Return the page of whole networks."""
    lines = [
        "# Whole networks on a CPU",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/cpu_models.json`.",
        "Ratios are the best dense runtime's median over ours, interleaved in one run, outputs",
        "verified against PyTorch on the same weights. Random weights, projected patterns.",
        "",
        "![speed-up over sparsity](cpu_models.svg)",
        "",
    ]
    for threads in sorted({r["threads"] for r in rows}):
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += _ratio_table([r for r in rows if r["threads"] == threads])
    lines += ["## Where the time goes", ""]
    lines += _share_table([r for r in rows if r["threads"] == 1])
    lines += _environments(rows)
    return "\n".join(lines) + "\n"


def _ratio_table(rows: list[dict[str, Any]]) -> list[str]:
    levels = list(dict.fromkeys(name for r in rows for name in r["ratios"]))
    head = ["network", "batch", "best dense (ms)", *levels, "weights at 87.5 %", "compile"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        best = row["times"][row["best_dense"]]["median_us"] / 1e3
        size = row["weight_bytes"]
        cells = [row["network"], str(row["batch"]), f"{row['best_dense']} {best:.2f}"]
        cells += [f"{row['ratios'][n]:.2f}x" if n in row["ratios"] else "" for n in levels]
        cells += [f"{size['ours 87.5 %'] / size['ours dense']:.2f} of dense"]
        cells += [f"{row['compile_seconds']['ours 87.5 %']:.0f} s"]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _share_table(rows: list[dict[str, Any]]) -> list[str]:
    head = ["network", "level", *(name for name, _ in SHARES), "other kernels", "sum of total"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        for level in ("ours dense", "ours 87.5 %"):
            spent, total = shares(row["layers"][level]), row["times"][level]["median_us"]
            kernels = sum(spent.values())
            cells = [row["network"], level.removeprefix("ours ")]
            cells += [f"{spent[name] / kernels:.0%}" for name, _ in SHARES]
            cells += [f"{spent['other'] / kernels:.0%}", f"{kernels / total:.0%}"]
            lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def shares(kernels: list[dict[str, Any]]) -> dict[str, float]:
    """Return microseconds by sort of kernel; the first sort whose word is in the name counts."""
    spent: dict[str, float] = defaultdict(float)
    for kernel in kernels:
        function = kernel["function"]
        for name, words in SHARES[1:] + SHARES[:1]:
            if any(word in function for word in ([words] if isinstance(words, str) else words)):
                spent[name] += kernel["us"]
                break
        else:
            spent["other"] += kernel["us"]
    return spent


def _environments(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["## Environment", ""]
    seen = {}
    for row in rows:
        e = row["environment"]
        versions = ", ".join(f"{p} {v}" for p, v in e["versions"].items())
        seen[f"{e['cpu']}, {e['cores']} cores, Python {e['python']}, {versions}, {e['date']}"] = 1
    return [*lines, *(f"* {line}" for line in seen)]


def models_picture(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw speed-up over sparsity, one line a network, break-even marked."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.5))
    levels = {"ours dense": 0.0, "ours 75 %": 75.0, "ours 87.5 %": 87.5, "ours 93.75 %": 93.75}
    for row in rows:
        if row["threads"] == 1 and row["batch"] == 1:
            points = [(levels[n], r) for n, r in row["ratios"].items() if n in levels]
            axes.plot(*zip(*points, strict=True), marker="o", label=row["network"])
    axes.axhline(1, color="grey", linestyle="--", linewidth=1)
    axes.annotate("best dense runtime", (1, 1.05), color="grey", fontsize=8)
    axes.set_xlabel("zeros in pruned layers, %")
    axes.set_ylabel("speed-up over the best dense runtime")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


if __name__ == "__main__":
    main()
