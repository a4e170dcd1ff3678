"""The page and the picture of plans, from ``results/plans.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness.common import load

TITLES = {
    "digits": "VGG-style network, handwritten digits",
    "resnet": "small residual network, handwritten digits",
    "minilm": "all-MiniLM-L6-v2, one sentence of 64 tokens",
}

Row = dict[str, Any]


def write(pages: Path) -> None:
    """Write ``plans.md`` and ``plans.svg`` into ``pages``, if there are results."""
    found = load("plans")
    if not found:
        return
    draw(found, pages / "plans.svg")
    text = page(found) + large(load("plans_large"))
    (pages / "plans.md").write_text(text, encoding="utf-8")


def page(found: dict[str, Any]) -> str:
    """Return the page."""
    env = next(iter(found.values()))["environment"]
    lines = [
        "# Plans beside one level everywhere",
        "",
        "A plan chooses the zeros of each layer for a speed; see [plans](../plan.md). Both sides",
        "are pruned by `one_shot` without training, compiled, and timed. The drop is one minus",
        "the mean cosine of the outputs to the dense network's, on held-out data. One level",
        "everywhere is read at the plan's measured time, between the times of its own networks.",
        f"{env['cpu']}, {env['threads']} thread, {env['date']}. Other programs ran on the machine.",
        "",
        "![Drop over milliseconds](plans.svg)",
        "",
    ]
    for name, result in found.items():
        lines += _section(name, result)
    lines += ["`python -m benchmarks.plans` repeats it.", ""]
    return "\n".join(lines)


def large(found: dict[str, Any]) -> str:
    """Return the section on large networks, if there are results."""
    if not found:
        return ""
    env = found["environment"]
    lines = [
        "",
        "## Large networks",
        "",
        "What the tables take: all levels, the usual trials. Weights are random: losses say",
        f"nothing. {env['cpu']}, one thread, {env['date']}.",
        "",
        "| network | weights | minutes | minutes of one core | peak memory | another budget |",
        "|---|---|---|---|---|---|",
    ]
    for row in found["rows"]:
        times = f"{row['seconds'] / 60:.1f} | {row['processor_seconds'] / 60:.1f}"
        memory = f"{row['peak_gb']:.1f} GB | {row['again_seconds']:.2f} s"
        lines.append(f"| {row['network']} | {row['weights'] / 1e6:.1f} M | {times} | {memory} |")
    return "\n".join([*lines, "", "`python -m benchmarks.plans_large` repeats it.", ""])


def _section(name: str, result: Row) -> list[str]:
    accurate = "accuracy" in result
    head = ["budget", "promised ms", "measured ms", "off", "zeros", "drop", "one level"]
    head += ["accuracy"] if accurate else []
    lines = [f"## {TITLES.get(name, name)}", ""]
    if result.get("quick"):
        lines += ["Drops are of layers that were pruned apart, on the calibration data.", ""]
    lines += ["| " + " | ".join(head) + " |"]
    lines += ["|---" * len(head) + "|"]
    lines += ["| " + " | ".join(_plan(row, accurate)) + " |" for row in result["plans"]]
    table = result["tables"]
    told = f"Dense: {result['dense_ms']:.3g} ms"
    told += f", accuracy {result['accuracy']:.1%}. " if accurate else ". "
    told += f"The tables took {table['processor_seconds']:.0f} seconds of one core"
    again = [row["again_seconds"] for row in result["plans"] if "again_seconds" in row]
    told += f", another budget at most {max(again):.2g} seconds." if again else "."
    checked = [row for row in result["plans"] if "kept" in row]
    kept = sum(row["kept"] for row in checked)
    told += f" {kept} of {len(checked)} promises are kept within 5 %."
    lines += ["", told, "", "One level everywhere:", ""]
    head = ["level", "ms", "drop"] + (["accuracy"] if accurate else [])
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in result["uniform"]:
        cells = [f"{row['level']:.2%}", f"{row['ms']:.3g}", f"{row['drop']:.4f}"]
        cells += [f"{row['accuracy']:.1%}"] if accurate else []
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def _plan(row: Row, accurate: bool) -> list[str]:
    if "ms" not in row:
        cells = [f"{row['speedup']:g}x", "out of reach", *[""] * 5]
        return [*cells, ""] if accurate else cells
    other = row.get("uniform_drop")
    cells = [
        f"{row['speedup']:g}x" + (", corrected" if row["corrected"] else ""),
        f"{row['promised_ms']:.3g}",
        f"{row['ms']:.3g}",
        f"{row['off']:+.1%}",
        f"{row['zeros']:.1%}",
        f"{row['drop']:.4f}",
        "not that fast" if other is None else f"{other:.4f}",
    ]
    return [*cells, f"{row['accuracy']:.1%}"] if accurate else cells


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw a panel for each network: drops over milliseconds of plans and of levels."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    matplotlib.rcParams["svg.hashsalt"] = "tvm-sparse"  # the same picture from the same rows
    figure, panels = pyplot.subplots(1, len(found), figsize=(4.2 * len(found), 3.2), squeeze=False)
    for panel, (name, result) in zip(panels[0], found.items(), strict=True):
        dense = [(result["dense_ms"], 0.0)]
        sides = {
            "one level": dense + [(row["ms"], row["drop"]) for row in result["uniform"]],
            "plans": [(r["ms"], r["drop"]) for r in result["plans"] if "ms" in r],
        }
        for label, points in sides.items():
            times, drops = zip(*sorted(points), strict=True)
            panel.plot(times, drops, marker="o", markersize=4, label=label)
        panel.set_title(name, fontsize=10)
        panel.set_xlabel("ms")
    panels[0][0].set_ylabel("drop")
    panels[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
