"""The page and the picture of one-shot pruning, from ``results/one_shot.json``."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.harness.common import load

BALANCED = "balanced, bank 16"

Row = dict[str, Any]
Curve = list[tuple[float, float]]
"""Points: fraction of zeros or speed-up, cosine."""


def write(pages: Path) -> None:
    """Write ``one_shot.md`` and ``one_shot.svg`` into ``pages``, if there are results."""
    found, timed = load("one_shot"), load("one_shot_latency").get("rows", [])
    if not found:
        return
    draw(curves(found), over_speed(found, timed), pages / "one_shot.svg")
    (pages / "one_shot.md").write_text(page(found, timed))


def page(found: dict[str, Any], timed: list[Row]) -> str:
    """Return the page; ``timed`` are the rows of ``one_shot_latency.json``."""
    lines = [
        "# Pruning a trained sentence encoder",
        "",
        "Made by `python -m benchmarks.pages` from",
        "[`one_shot.json`](../../benchmarks/results/one_shot.json), which",
        "`python -m benchmarks.one_shot` writes.",
        "",
        "all-MiniLM-L6-v2 (six layers, 22 million parameters), all linear layers of its blocks.",
        "Calibrated with 768 sentences of docstrings, tested on 256 others. *Cosine*: mean cosine",
        "of pruned to dense embeddings; in square brackets the rank correlation of all pairwise",
        "similarities. *Magnitude*: the smallest weights go, and nothing else changes. *One-shot*:",
        "`ts.prune.one_shot(swaps=0)`, no training. Cosines are means over the draws of",
        "calibration sentences, with their range.",
        "",
        "![Cosine over sparsity, and over speed-up](one_shot.svg)",
        "",
        "## Without training",
        "",
        *_table(
            ["pattern", "zeros", "draws", "magnitude", "one-shot", "seconds of one core"],
            [_cells(group) for group in _groups(found["rows"])],
        ),
    ]
    if found.get("swaps"):
        lines += [
            "## What swaps add",
            "",
            "`one_shot` without swaps (`swaps=0`, as above) and with them, one draw.",
            "",
            *_table(
                ["pattern", "zeros", "without", "with swaps", "seconds of one core"],
                [_swapped(row) for row in found["swaps"]],
            ),
        ]
    if found["distilled"]:
        lines += [
            "## With distillation",
            "",
            "`ts.prune.distil` after one-shot pruning, balanced in banks of 16, on sentences of",
            "docstrings. *Uniform*: all layers have the same sparsity; *planned*: levels of a plan",
            "with as many zeros. *Hidden states*: the loss of release 0.1.0, in float32, from",
            "masks without swaps. *All terms*: today's loss, in bfloat16, after swaps. *Varied*",
            "has docstrings of installed packages, too; *broad* also their comments, messages and",
            "readmes. *Other domain*: the same cosine on 256 sentences of manual pages and",
            "changelogs, which nothing was trained on. *Batch*: tokens of a step.",
            "",
            *_table(
                [
                    "zeros",
                    "layers",
                    "one-shot",
                    "loss",
                    "text",
                    "steps",
                    "batch",
                    "distilled",
                    "other domain",
                    "seconds of one core",
                ],
                [_distilled(row) for row in found["distilled"]],
            ),
        ]
    if timed:
        lines += [
            "## Time",
            "",
            "One sentence of 64 tokens, one thread, chosen by the cost model, in turns",
            "(`python -m benchmarks.one_shot_latency`). In brackets: our dense float32 network's",
            "time over it. Bytes have activations scaled row by row.",
            "",
            *_table(["pattern", "zeros", "float32 (ms)", "int8 (ms)"], _times(found, timed)),
        ]
    where = found["environment"]
    others = sorted({row["cpu"] for row in found["distilled"] if "cpu" in row} - {where["cpu"]})
    also = f" Planned levels: {', '.join(others)}." if others else ""
    lines += [f"{where['cpu']}, {where['date']}. Seconds are processor time.{also}", ""]
    return "\n".join(lines)


def curves(found: dict[str, Any]) -> dict[str, Curve]:
    """Return what is drawn: a line a pattern, one for magnitudes, one for distillation."""
    lines: dict[str, Curve] = {}
    for group in _groups(found["rows"]):
        pattern, level = group[0]["pattern"], group[0]["sparsity"]
        lines.setdefault(f"one-shot, {pattern}", []).append((level, _mean(group, "one_shot")))
        if pattern == BALANCED:
            lines.setdefault("magnitude, balanced", []).append((level, _mean(group, "magnitude")))
    for row in _best(found["distilled"]):
        point = (row["sparsity"], row["distilled"]["cosine"])
        lines.setdefault(f"distilled, {row['layers']} levels", []).append(point)
    return {name: sorted(line) for name, line in lines.items()}


def over_speed(found: dict[str, Any], timed: list[Row]) -> dict[str, Curve]:
    """Return cosines over speed-ups in single precision: a line a pattern, one for distillation."""
    speeds = {
        (row["pattern"], row["level"]): _speed(row, timed)
        for row in timed
        if row["precision"] == "float32"
    }
    lines: dict[str, Curve] = {}
    for group in _groups(found["rows"]):
        pattern, level = group[0]["pattern"], group[0]["level"]
        if (pattern, level) in speeds:
            point = speeds[pattern, level], _mean(group, "one_shot")
            lines.setdefault(f"one-shot, {pattern}", []).append(point)
    for row in _best(found["distilled"]):
        if row["layers"] == "uniform" and (BALANCED, row["level"]) in speeds:
            point = speeds[BALANCED, row["level"]], row["distilled"]["cosine"]
            lines.setdefault("distilled, uniform levels", []).append(point)
    return {name: sorted(line) for name, line in lines.items()}


def draw(over_zeros: dict[str, Curve], speeds: dict[str, Curve], path: Path) -> None:
    """Draw cosine over sparsity, and over speed-up where that was measured."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tvm-sparse"  # the same picture from the same rows
    from matplotlib import pyplot

    parts = {"fraction of zeros": over_zeros, "times as fast as dense (float32)": speeds}
    parts = {label: lines for label, lines in parts.items() if lines}
    size = (1 + 5 * len(parts), 5)
    figure, axes = pyplot.subplots(1, len(parts), figsize=size, squeeze=False, sharey=True)
    colours = {name: f"C{i}" for i, name in enumerate(over_zeros)}
    for part, (label, lines) in zip(axes[0], parts.items(), strict=True):
        for name, line in lines.items():
            part.plot(*zip(*line, strict=True), marker="o", label=name, color=colours[name])
        part.set(xlabel=label)
        part.grid(alpha=0.3)
    axes[0][0].set(ylabel="cosine to the dense embeddings")
    names = axes[0][0].get_legend_handles_labels()
    axes[0][-1].legend(*names, fontsize=8, loc="lower left")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _speed(row: Row, timed: list[Row]) -> float:
    """Return how many times as fast as the dense network in single precision ``row`` is."""
    dense = next(r for r in timed if r["pattern"] == "dense" and r["precision"] == "float32")
    return float(dense["median_us"] / row["median_us"])


def _times(found: dict[str, Any], timed: list[Row]) -> list[list[str]]:
    """Return a line for each pattern and level, in order of the latter."""
    zeros = {(row["level"], row["pattern"]): row["sparsity"] for row in found["rows"]}
    lines: dict[tuple[float, str], dict[str, str]] = {}
    for row in timed:
        cell = f"{row['median_us'] / 1e3:.2f} ({_speed(row, timed):.2f}x)"
        lines.setdefault((row["level"], row["pattern"]), {})[row["precision"]] = cell
    return [
        [key[1], f"{zeros.get(key, key[0]):.1%}", cells.get("float32", ""), cells.get("int8", "")]
        for key, cells in sorted(lines.items())
    ]


def _groups(rows: list[Row]) -> list[list[Row]]:
    """Return the draws of each pattern and level, levels first."""
    found: dict[tuple[float, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row["level"], row["pattern"]), []).append(row)
    return [found[key] for key in sorted(found)]


def _cells(group: list[Row]) -> list[str]:
    first = group[0]
    seconds = f"{mean(row['processor_seconds'] for row in group):.0f}"
    shown = [_spread(group, method) for method in ("magnitude", "one_shot")]
    return [first["pattern"], f"{first['sparsity']:.1%}", str(len(group)), *shown, seconds]


def _spread(group: list[Row], method: str) -> str:
    cosines = [row[method]["cosine"] for row in group]
    rank = mean(row[method]["rank"] for row in group)
    span = f" ({min(cosines):.3f} to {max(cosines):.3f})" if min(cosines) < max(cosines) else ""
    return f"{mean(cosines):.3f}{span} [{rank:.3f}]"


def _swapped(row: Row) -> list[str]:
    sides = row["without"], row["with"]
    seconds = " to ".join(f"{side['processor_seconds']:.0f}" for side in sides)
    shown = [_spread([side], "one_shot") for side in sides]
    return [row["pattern"], f"{sides[0]['sparsity']:.1%}", *shown, seconds]


def _distilled(row: Row) -> list[str]:
    seconds = row["processor_seconds"] + row["distil_processor_seconds"]
    seconds += row.get("choice_processor_seconds", 0)
    shown = [_spread([row], method) for method in ("one_shot", "distilled")]
    how = [row.get("loss", "hidden states"), row.get("text", "docstrings"), str(row["steps"])]
    how.append(str(row.get("tokens", "")))
    other = row["distilled"].get("other")
    last = [shown[1], "" if other is None else f"{other:.3f}", f"{seconds:.0f}"]
    return [f"{row['sparsity']:.1%}", row["layers"], shown[0], *how, *last]


def _best(rows: list[Row]) -> list[Row]:
    """Return the row of each level that keeps most."""
    ordered = sorted(rows, key=lambda row: row["distilled"]["cosine"])
    return list({(row["level"], row["layers"]): row for row in ordered}.values())


def _mean(group: list[Row], method: str) -> float:
    return mean(row[method]["cosine"] for row in group)


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]
