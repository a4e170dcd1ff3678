"""The page and the pictures of whole networks, from ``results/cpu_models.json``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.common import load
from benchmarks.harness.kernel_sorts import OTHER, SORTS

Row = dict[str, Any]

SHOWN = ("ours dense", "ours 87.5 %", "ours 90.6 %")
MB = 1 / 2**20


def write(pages: Path) -> None:
    """Write page and pictures to the folder ``pages``, if there are results."""
    write_page(pages, "cpu_models", "float32", page)


def write_page(pages: Path, name: str, precision: str, text: Callable[[list[Row]], str]) -> None:
    """Write the page ``name`` and its pictures of the rows in ``precision``, if there are any."""
    if rows := rows_in(precision):
        (pages / f"{name}.md").write_text(text(rows))
        speed_up_picture(rows, pages / f"{name}.svg")
        waterfall(rows, pages / f"{name}_time.svg")


def rows_in(precision: str) -> list[Row]:
    """Return the measured rows of networks in ``precision``."""
    rows = load("cpu_models").get("rows", [])
    return [row for row in rows if row.get("precision", "float32") == precision]


def page(rows: list[Row]) -> str:
    """Return the page as Markdown."""
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
        chosen = [r for r in rows if r["threads"] == threads]
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += table(*_ratios(chosen))
        lines += ["Dense runtimes, ms:", "", *table(*_baselines(chosen))]
    lines += two_threads(rows, SHOWN)
    lines += ["## Where the time goes", ""]
    lines += ["![time by sort of kernel](cpu_models_time.svg)", "", *table(*sorts(rows))]
    lines += ["## Compile time and memory", ""]
    lines += ["Peaks are what the process needs on top of itself; compile time is CPU time of"]
    lines += ["compilation without tuning, candidates of each layer measured.", ""]
    lines += table(*_resources(rows))
    lines += environments(rows)
    return "\n".join(lines) + "\n"


def table(head: list[str], body: list[list[str]]) -> list[str]:
    """Return a table as lines of Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return [*lines, *("| " + " | ".join(cells) + " |" for cells in body), ""]


def _ratios(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    levels = list(dict.fromkeys(name for r in rows for name in r["ratios"]))
    body = []
    for row in rows:
        best = f"{row['best_dense']} {row['times'][row['best_dense']]['median_us'] / 1e3:.2f}"
        ratios = (row["ratios"].get(level) for level in levels)
        cells = [f"{ratio:.2f}x" if ratio else "" for ratio in ratios]
        body.append([row["network"], str(row["batch"]), best, *cells])
    return ["network", "batch", "best dense (ms)", *levels], body


def _baselines(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    names = list(dict.fromkeys(n for r in rows for n in r["times"] if not n.startswith("ours")))
    body = []
    for row in rows:
        times = (row["times"].get(name) for name in names)
        cells = [f"{t['median_us'] / 1e3:.2f}" if t else "" for t in times]
        body.append([row["network"], str(row["batch"]), *cells])
    return ["network", "batch", *names], body


def two_threads(rows: list[Row], levels: Sequence[str]) -> list[str]:
    """Return what the second thread brings at each of ``levels``, where it was measured."""
    body = [
        [r["network"], str(r["batch"]), *_gains(r["two_over_one"], levels)]
        for r in rows
        if r.get("two_over_one")
    ]
    head = ["network", "batch", *levels]
    title = ["## What a second thread brings", ""]
    title += ["Time with one thread over that with two, in turns in one process.", ""]
    return [*title, *table(head, body)] if body else []


def _gains(ratios: dict[str, float], levels: Sequence[str]) -> list[str]:
    return [f"{ratios[n]:.2f}x" if n in ratios else "" for n in levels]


def sorts(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows of a table of what sort of kernel takes which part."""
    names = [*SORTS, OTHER]
    body = []
    for row in rows:
        for level in (n for n in SHOWN if n in row["kernels_us"] and row["threads"] == 1):
            spent, total = row["kernels_us"][level], row["layers_total_us"][level]
            kernels = sum(spent.values())
            cells = [f"{spent.get(name, 0) / kernels:.0%}" for name in names]
            name = f"{row['network']}, batch {row['batch']}"
            body.append([name, level.removeprefix("ours "), *cells, f"{kernels / total:.0%}"])
    return ["network", "level", *names, "sum of total"], body


def _resources(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    body = []
    for row in (r for r in rows if r["threads"] == 1):
        dense = row["weight_bytes"]["ours dense"]
        for level in (n for n in SHOWN if n in row["weight_bytes"]):
            size = row["weight_bytes"][level]
            cells = [f"{size * MB:.1f} ({size / dense:.2f} of dense)"]
            cells += [_of(row, "inference_peak_bytes", level, MB, "{:.0f}")]
            # Without the part of code, levels after the first found memory freed by it.
            known = level if "compile_code_bytes" in row or level == "ours dense" else ""
            cells += [_of(row, "compile_peak_bytes", known, 1 / dense, "{:.1f}")]
            cells += [_of(row, "compile_code_bytes", level, MB, "{:.0f}")]
            cells += [_of(row, "compile_cpu_seconds", level, 1.0, "{:.0f}")]
            name = f"{row['network']}, batch {row['batch']}"
            body.append([name, level.removeprefix("ours "), *cells])
    head = ["network", "level", "weights (MB)", "peak of inference (MB)"]
    head += ["peak of compilation (times dense weights)", "of it loaded code (MB)"]
    return [*head, "compile time (s)"], body


def _of(row: Row, key: str, level: str, scale: float, form: str) -> str:
    values: Mapping[str, float] = row.get(key, {})
    return form.format(values[level] * scale) if level in values else ""


def environments(rows: list[Row]) -> list[str]:
    """Return what the rows were measured with, and which, if not all with the same."""
    seen: dict[str, dict[str, int]] = {}
    for row in rows:
        e = row["environment"]
        versions = ", ".join(f"{p} {v}" for p, v in e["versions"].items())
        line = f"{e['cpu']}, {e['cores']} cores, Python {e['python']}, {versions}, {e['date']}"
        seen.setdefault(line, {})[row["network"]] = 1
    names = {line: f": {', '.join(found)}" if len(seen) > 1 else "" for line, found in seen.items()}
    return ["## Environment", "", *(f"* {line}{found}" for line, found in names.items())]


def speed_up_picture(rows: list[Row], path: Path) -> None:
    """Draw speed-up over sparsity, one line a network, break-even marked."""
    pyplot = _pyplot()
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5))
    levels = {"ours dense": 0.0, "ours 75 %": 75.0, "ours 87.5 %": 87.5, "ours 93.75 %": 93.75}
    for row in rows:
        if row["threads"] == 1 and row["batch"] == 1:
            points = sorted((levels[n], r) for n, r in row["ratios"].items() if n in levels)
            axes.plot(*zip(*points, strict=True), marker="o", label=row["network"])
    axes.axhline(1, color="grey", linestyle="--", linewidth=1)
    axes.annotate("best dense runtime", (1, 1.05), color="grey", fontsize=8)
    axes.set_xlabel("zeros in pruned layers, %")
    axes.set_ylabel("speed-up over the best dense runtime")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    _save(pyplot, figure, path)


def waterfall(rows: list[Row], path: Path) -> None:
    """Draw each network's time as a stack of sorts of kernels, and the measured total."""
    pyplot = _pyplot()
    chosen = [r for r in rows if r["threads"] == 1 and r["batch"] == 1]
    height = 0.5 + 0.28 * sum(len(r["kernels_us"]) + 1.5 for r in chosen)
    figure, axes = pyplot.subplots(figsize=(7.5, height))
    at, ticks = 0.0, []
    colours = dict(zip([*SORTS, OTHER], pyplot.get_cmap("tab10").colors, strict=False))
    for row in chosen:
        best = row["times"][row["best_dense"]]["median_us"]
        for level, spent in row["kernels_us"].items():
            left = 0.0
            for name, colour in colours.items():
                width = spent.get(name, 0.0) / best
                axes.barh(at, width, left=left, height=0.8, color=colour)
                left += width
            axes.plot([row["layers_total_us"][level] / best], [at], "k|", markersize=9)
            ticks.append((at, f"{row['network']} {level.removeprefix('ours ')}"))
            at -= 1
        at -= 0.7
    for name, colour in colours.items():
        axes.barh(0, 0, color=colour, label=name)
    axes.plot([], [], "k|", label="measured total")
    axes.set_yticks([y for y, _ in ticks], [label for _, label in ticks], fontsize=7)
    axes.set_xlabel("time over that of the best dense runtime")
    axes.legend(fontsize=7, loc="lower right")
    axes.grid(alpha=0.3, axis="x")
    _save(pyplot, figure, path)


def _pyplot() -> Any:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tvm-sparse"  # the same picture from the same rows
    from matplotlib import pyplot

    return pyplot


def _save(pyplot: Any, figure: Any, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
