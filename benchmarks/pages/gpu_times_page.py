"""The part of the GPU page with measured times: which parts were run, and their long tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median
from typing import Any

from benchmarks.gpu.ratios import ratio_of

NOT_YET = "not yet"

TIMED = ("grid", "papers", "depthwise", "models")
SWITCHED = ("flush", "mend_times")
"""Parts whose rows compare contenders that are all ours, or one with itself."""

FORETOLD, MODELLED = ("correct", "papers", "grid", "mend_times"), ("tile", "2:4 tile", "stream")
"""Parts whose kernels were modelled when they were built, and the kernels that a fit is to."""


def lines(measured: Mapping[str, dict[str, Any] | None], parts: Mapping[str, str]) -> list[str]:
    """Return the table of parts, and one of times for each that was measured."""
    found = ["## Measurements", "", *_parts(measured, parts)]
    contents = {part: content for part in TIMED if (content := measured[part])}
    if any(content["rows"] for content in contents.values()):
        found += _remarks(contents)
    for part, content in contents.items():
        if content["rows"]:
            title = parts[part][0].upper() + parts[part][1:]
            found += [f"### {title}", "", *_times(content["rows"])]
    for part in SWITCHED:
        content = measured.get(part)
        if content and content["rows"]:
            found += [f"### {parts[part][0].upper()}{parts[part][1:]}", ""]
            found += _switched(content["rows"])
    found += _foretold(measured)
    tuned = measured["tune"]
    if tuned:
        found += [f"### {parts['tune'].capitalize()}", "", *_tuned(tuned["rows"])]
    return found


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return a table in Markdown and an empty line."""
    written = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return [*written, *("| " + " | ".join(row) + " |" for row in rows), ""]


def _parts(measured: Mapping[str, dict[str, Any] | None], parts: Mapping[str, str]) -> list[str]:
    rows = []
    for part, about in parts.items():
        content = measured[part]
        if not content:
            rows.append([f"`{part}`", about, NOT_YET, ""])
            continue
        dates = {row["environment"]["date"] for row in content["rows"]}
        gpus = {row["environment"]["gpu"] for row in content["rows"]}
        failed = [f"{len(content['failed'])} failed"] if content.get("failed") else []
        cells = [", ".join([*sorted(gpus | dates), *failed]), f"`gpu_{part}.json`"]
        rows.append([f"`{part}`", about, *cells])
    return table(["part", "measures", "measured on", "results"], rows)


def _remarks(contents: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return what a reader of the tables must know of how they were measured."""
    rows = [row for content in contents.values() for row in content["rows"]]
    old = sum("flush" not in row for row in rows)
    untuned = sum("triton bsr" in row["times"] for row in rows)
    found = [
        "Times are in microseconds. A ratio over 1 says that ours is faster. *Withdrawn*: the time",
        "of a contender that may be the best holds some of its host's, by the rule of",
        "[contaminated.py](../../benchmarks/gpu/contaminated.py); *without*: so does that of one",
        "that cannot be the best. The results name both and why, until they are measured again.",
    ]
    if old:
        found += [
            f"{old} of {len(rows)} rows were measured behind a flush that left written lines in",
            "L2, which a program's own loads must first write back: small weights look slower.",
        ]
    if untuned:
        found += [f"In {untuned} rows Triton's block kernel ran with its default parameters."]
    return [*found, ""]


def _times(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of medians, the best library's over our best."""
    cells = []
    for row in rows:
        ratio = ratio_of(row, rows)
        first = f"{ratio.ours} {ratio.ours_us:.1f}"
        second = f"{ratio.library} {ratio.library_us:.1f}"
        told = f"{ratio.value:.2f}x" if ratio.value else "withdrawn"
        if ratio.left_out:
            told += f" ({'without' if ratio.value else 'for'} {', '.join(ratio.left_out)})"
        cells.append([row["case"], first, second, told])
    return table(["case", "ours (us)", "best library (us)", "ratio"], cells)


def _switched(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of the times of all contenders, behind them what was modelled before."""
    cells = []
    for row in rows:
        times = []
        for name, taken in row["times"].items():
            record = row.get("kernels", {}).get(name.removeprefix("ours "), {})
            before = f" ({record['modelled_us']:.1f})" if "modelled_us" in record else ""
            times.append(f"{name} {taken['median_us']:.1f}{before}")
        cells.append([row["case"], ", ".join(times)])
    return table(["case", "times (us), modelled before in brackets"], cells)


def _foretold(measured: Mapping[str, dict[str, Any] | None]) -> list[str]:
    """Say how near modelled times came to the measured ones, which nobody knew yet."""
    off = [
        abs(math.log(record["modelled_us"] / row["times"][f"ours {name}"]["median_us"]))
        for part in FORETOLD
        for row in (measured[part] or {"rows": []})["rows"]
        # Earlier rows were modelled by data sheets.
        if row.get("flush") == "clean"
        for name, record in row.get("kernels", {}).items()
        if record["kernel"] in MODELLED and f"ours {name}" not in row.get("contaminated", ())
    ]
    if not off:
        return []
    middle, most, worst = (math.exp(quantile) for quantile in (median(off), *_ends(off)))
    return [
        "### How well times were predicted",
        "",
        f"The results say what the model gave {len(off)} kernels when they were built, before they",
        f"ran on a GPU. Half are within {middle:.2f} of what was measured behind clean lines, nine",
        f"of ten within {most:.2f}, the worst within {worst:.2f}. The model was fitted to these",
        "times since ([how](../design/cuda.md#which-way-is-chosen)).",
        "",
    ]


def _ends(values: list[float]) -> tuple[float, float]:
    """Return what nine of ten values do not exceed, and the largest one."""
    ordered = sorted(values)
    return ordered[len(ordered) * 9 // 10], ordered[-1]


def _tuned(rows: list[dict[str, Any]]) -> list[str]:
    """Return the table of what tuning found; nothing where the default stayed best."""
    cells = []
    for row in rows:
        best = f"{row['best_us']:.1f}" if row["best_us"] else ""
        gain = f"{1 / row['ratio']:.2f}x"
        cells.append([row["case"], f"{row['default_us']:.1f}", best, gain, str(row["trials"])])
    return table(["case", "default (us)", "tuned (us)", "gain", "trials"], cells)
