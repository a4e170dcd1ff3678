"""The page and the picture of tuning, from ``results/tuning*.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness.common import load

PICTURED = 5
"""Functions whose learning curve is drawn, slowest first."""


def write(pages: Path) -> None:
    """Write ``tuning.md`` and ``tuning.svg`` into ``pages``, as far as there are results."""
    rates, gains = load("tuning_throughput"), load("tuning")
    lines = ["# Tuning", "", "Made by `python -m benchmarks.pages` from `benchmarks/results`.", ""]
    if rates:
        lines += throughput(rates)
    if gains:
        rows = gains["rows"]
        picture(deepest(rows), pages / "tuning.svg")
        lines += [*functions(rows), *networks(rows)]
    if len(lines) > 4:
        (pages / "tuning.md").write_text("\n".join(lines).rstrip() + "\n")


def throughput(result: dict[str, Any]) -> list[str]:
    """Return the section on trials a minute."""
    names = {
        "ours": "this package",
        "stock": "MetaSchedule's `tune_tir` with `LocalBuilder` and `LocalRunner`",
    }
    table = [
        [names[key], f"{r['trials']}", f"{r['seconds']:.0f}", f"{r['trials_a_minute']:.1f}"]
        for key in names
        for r in [result[key]]
    ]
    return [
        "## Trials a minute",
        "",
        "`python -m benchmarks.tuning_throughput`: the same task, search and cost model, batches",
        f"of {result['batch']}, {result['workers']} processes to build, the start of all processes",
        f"included. This package makes **{result['ratio']:.0f} times** as many trials a minute.",
        "",
        *_table(["tuner", "trials", "seconds", "measured trials a minute"], table),
        *_environment([result]),
    ]


def functions(rows: list[dict[str, Any]]) -> list[str]:
    """Return the sections on single functions: each number of trials with its gains."""
    found: list[str] = []
    for row in sorted((r for r in rows if r["slowest"]), key=lambda r: r["per_task"]):
        tasks = row["tuning"]["tasks"]
        faster = sum(t["speedup"] >= 1.1 for t in tasks)
        gap = max(t["speedup"] for t in tasks) - 1
        found += [
            f"## {row['per_task']} trials for each of the slowest {len(tasks)} functions",
            "",
            f"{_title(row)}: {faster} of {len(tasks)} become at least 10 % faster than by their",
            f"default schedules; the best that was found is {gap:.1%} faster than its default.",
            "Gains are medians of turns with the default, after the search, which ends early where",
            "it proposes nothing new.",
            "",
        ]
        table = [
            [
                f"{t['layers'][0]}{_more(t['layers'])}" if t["layers"] else t["name"],
                t["operator"],
                str(t["calls"]),
                f"{t['default_us']:.1f}",
                f"{t['best_us']:.1f}",
                f"{t['speedup']:.2f}x",
                f"{t['failed']} of {t['trials']}",
            ]
            for t in tasks
        ]
        head = ["layers", "operator", "calls", "default us", "best us", "gain", "failed trials"]
        found += [*_table(head, table), *_environment([row])]
    if found:
        found += ["![best time over trials](tuning.svg)", ""]
    return found


def networks(rows: list[dict[str, Any]]) -> list[str]:
    """Return the section on whole networks before and after."""
    whole = [row for row in rows if not row["slowest"]]
    if not whole:
        return []
    table = [
        [
            _title(row),
            str(row["tuning"]["trials"]),
            f"{row['times_us']['default'] / 1e3:.3f}",
            f"{row['times_us']['tuned'] / 1e3:.3f}",
            f"**{row['gain']:.2f}x**" if row["tuned_layers"] else f"({row['gain']:.2f}x)",
            str(row["tuned_layers"]),
        ]
        for row in whole
    ]
    head = ["network", "trials", "default ms", "tuned ms", "gain", "layers with a record"]
    return [
        "## Whole networks before and after",
        "",
        "`python -m benchmarks.tuning`: both compiled twice from the same weights (default, tuned,",
        "tuned, default: of equal programs in one process the later is up to 2 % slower), run in",
        "turns, outputs verified against PyTorch, means of the two medians. A network without a",
        "record is the same program four times: the default schedules stay, and its ratio (in",
        "brackets) is what turns differ by.",
        "",
        *_table(head, table),
        *_environment(whole),
    ]


def deepest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the tasks to draw: those of the row with the most trials a function."""
    chosen = max(rows, key=lambda row: (bool(row["slowest"]), row["per_task"] or 0))
    return list(chosen["tuning"]["tasks"][:PICTURED])


def picture(tasks: list[dict[str, Any]], path: Path) -> None:
    """Draw the best time so far, relative to the default's, over the trials."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "tvm-sparse"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.5, 4.5))
    for task in tasks:
        curve = [us / task["curve"][0] for us in task["curve"]]
        label = task["layers"][0] if task["layers"] else task["name"]
        axes.step(range(1, len(curve) + 1), curve, where="post", label=label)
    axes.axhline(1, color="grey", linestyle="--", linewidth=1)
    axes.set_xlabel("trials")
    axes.set_ylabel("best time so far over the default's")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _title(row: dict[str, Any]) -> str:
    level = "dense" if row["level"] == "dense" else f"{row['level']} zeros"
    threads = f"{row['threads']} thread{'s' if row['threads'] > 1 else ''}"
    return f"{row['network']} ({level}, batch {row['batch']}, {threads})"


def _more(layers: list[str]) -> str:
    return f" and {len(layers) - 1} more" if len(layers) > 1 else ""


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _environment(rows: list[dict[str, Any]]) -> list[str]:
    seen = {}
    for row in rows:
        e = row["environment"]
        version = e["versions"]["apache-tvm"]
        threads = f"{e['threads']} thread{'s' if e['threads'] > 1 else ''}"
        seen[f"{e['cpu']}, {e['cores']} cores, {threads}, apache-tvm {version}, {e['date']}."] = 1
    return [*seen, ""]
