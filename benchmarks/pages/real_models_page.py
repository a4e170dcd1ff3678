"""The page of trained models: ``results/real_models.json``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.common import load
from benchmarks.pages.machines import machines

FLOATS = ("published", "50 % zeros", "75 % zeros")
BYTES = ("int8", "75 % zeros, int8")
TRAINED, TRAINED_INT8 = "75 % zeros, trained", "75 % zeros, trained, int8"
KEPT = ("published", "50 % zeros", "75 % zeros", TRAINED, "int8", "75 % zeros, int8", TRAINED_INT8)
PLANNED = ("plan for 1.5x", "plan for 2x")
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


def at_kept_score(row: Row) -> tuple[str, float, str, float] | None:
    """Return the fastest other program and ours of those that keep the score, with milliseconds.

    They keep it that are within :data:`CLOSE` of the published file in onnxruntime, in whatever
    numbers they compute. A trained file takes the time that it took before. None if another runtime
    opens no file, or ours has none.
    """
    least = row["scores"].get("onnxruntime, published", 0.0) - CLOSE
    times = {
        name: row["ms"].get(name.replace(", trained", ""))
        for name, score in row["scores"].items()
        if score >= least
    }
    known = {name: ms for name, ms in times.items() if ms}
    own = [name for name in known if name.startswith("ours")]
    best = [min(names, key=known.__getitem__, default="") for names in (known.keys() - own, own)]
    return (best[0], known[best[0]], best[1], known[best[1]]) if all(best) else None


def verdict(rows: list[Row]) -> str:
    """Return the page's first sentence."""
    published = [r for row in rows if (r := ratio(row, "published"))]
    sparse = [r for row in rows if (r := ratio(row, "75 % zeros"))]
    gains = [found[1] / found[3] for row in rows if (found := at_kept_score(row))]
    said = (
        f"Of {len(rows)} trained models, {sum(r >= 1 for r in published)} run as published at "
        f"least as fast as on the fastest other runtime. With 75 % zeros, "
        f"{sum(r >= 1.5 for r in sparse)} of the {len(sparse)} that can be pruned run at least "
        f"1.5 times as fast."
    )
    if gains:
        said += (
            f" Where no program may lose more than {CLOSE} of the score, the fastest of ours runs "
            f"{median(gains):.2f} times as fast as the fastest of others in the median."
        )
    return said


def kept(rows: list[Row]) -> str:
    """Return the sentence on accuracy, for the files that were trained; nothing without any."""
    trained = [row for row in rows if f"ours, {TRAINED}" in row["scores"]]
    if not trained:
        return ""

    def close(variant: str) -> int:
        scores = [(row["scores"]["ours, published"], row["scores"]) for row in trained]
        return sum(own[f"ours, {variant}"] >= dense - CLOSE for dense, own in scores)

    longest = max(_training(row).get("seconds", 0) for row in trained)
    return (
        f"With 75 % zeros, {close('75 % zeros')} of {len(trained)} keep their score within "
        f"{CLOSE}; {close(TRAINED)} after at most {math.ceil(longest / 60)} minutes of training "
        f"without labels, on one core."
    )


def page(found: Mapping[str, Any]) -> str:
    """Return the page: how fast, how good, and what was refused."""
    rows, versions = found["rows"], found["environment"]["versions"]
    planned = [_plan(row, name) for row in rows for name in PLANNED if name in row.get("plans", {})]
    text = [
        "# Trained models, as they are and pruned",
        "",
        f"**{' '.join(filter(None, (verdict(rows), kept(rows))))}**",
        *_HEAD,
        f"One input a call, one thread, in turns, medians; onnxruntime "
        f"{versions.get('onnxruntime', '')}, OpenVINO {versions.get('openvino', '')}.",
        *machines(rows, "model"),
        *_KEPT,
        *(_kept_line(row) for row in rows),
        *_SPEEDS,
        *(_speeds(row) for row in rows),
        *_SCORES,
        *(_scores(row) for row in rows),
        *(_PLANS if planned else ()),
        *planned,
    ]
    refused = [
        f"* {row['model']}, {name}: {why}"
        for row in rows
        for name, why in row.get("refused", {}).items()
    ]
    if refused:
        text += ["", "## What was refused", "", *refused]
    return "\n".join(text) + "\n"


_HEAD = (
    "",
    "Made by `python -m benchmarks.pages` from `benchmarks/results/real_models.json`, which",
    "`python -m benchmarks.real_models` writes. Packages are fetched from the index, and",
    "inputs with known labels are made: rendered lines, tones, vowels, installed files.",
    "Each file is compiled as it was published, with its open extents. Its weights are",
    "pruned in one pass over 4 to 32 inputs (`ts.prune.onnx`), by the same sparsity or by that",
    "of a plan for a speed (`ts.plan`), and put into int8 by `ts.quantize_onnx`. The other",
    "runtimes run the published file, or the same int8 file. They do not gain from zeros.",
    "",
)

_KEPT = (
    "",
    "## At a kept score",
    "",
    f"The fastest programs that keep the score of the published file within {CLOSE}, in any",
    "numbers. What is measured, and every score, is below.",
    "",
    "| model | fastest other | ms | ours | ms | times as fast |",
    "|---|---|---:|---|---:|---:|",
)

_SPEEDS = (
    "",
    "## How fast",
    "",
    "Times the speed of the fastest other runtime in the same numbers.",
    "",
    f"| model | input | fastest other | {' | '.join(FLOATS)} | int8: fastest other | "
    f"{' | '.join(BYTES)} |",
    "|---|---|---|---:|---:|---:|---|---:|---:|",
)

_SCORES = (
    "",
    "## What is left of the accuracy",
    "",
    "Means over 24 other inputs, of 1. *Trained*: `ts.prune.distil` for some minutes, from",
    "other inputs than are scored, without labels ([how](../pruning.md#onnx-files)). Zeros and",
    "speed stay. Seconds are processor time of one core.",
    "",
    f"| model | what is measured | onnxruntime | {' | '.join(KEPT)} | steps | seconds |",
    f"|---|---|---:|{'---:|' * (len(KEPT) + 2)}",
)

_PLANS = (
    "",
    "## Plans for a speed",
    "",
    "`ts.plan` chooses the zeros of each layer for a speed over our own dense network. *Drop*:",
    "one minus the cosine of the outputs, as predicted. Seconds are processor time of one core.",
    "Promised is a program of the input's shape; measured is that of the file, whose extents are",
    "open.",
    "",
    "| model | plan | zeros | drop | promised ms | measured ms | seconds | score | trained | int8 "
    "| trained, int8 |",
    f"|---|---|{'---:|' * 9}",
)


def _training(row: Row) -> Mapping[str, Any]:
    """Return what training of the file with 75 % zeros took."""
    found: Mapping[str, Any] = row.get("training", {}).get("75 % zeros", {})
    return found


def _plan(row: Row, name: str) -> str:
    found, scores = row["plans"][name], row["scores"]
    measured = row["ms"].get(f"ours, {name}")
    cells = [row["model"], name, f"{found['zeros']:.1%}", f"{found['drop']:.3f}"]
    cells += [f"{found['ms']:.3g}", f"{measured:.3g}" if measured else "", str(found["seconds"])]
    variants = (name, f"{name}, trained", f"{name}, int8", f"{name}, trained, int8")
    cells += [f"{scores[n]:.3f}" if (n := f"ours, {v}") in scores else "" for v in variants]
    return f"| {' | '.join(cells)} |"


def _kept_line(row: Row) -> str:
    found = at_kept_score(row)
    if found is None:
        return f"| {row['model']} |  |  |  |  |  |"
    other, theirs, own, ms = found
    cells = [other, f"{theirs:.3g}", own.removeprefix("ours, "), f"{ms:.3g}"]
    return f"| {' | '.join([row['model'], *cells, f'{theirs / ms:.2f}x'])} |"


def _speeds(row: Row) -> str:
    cells = [row["model"], row["shape"]]
    for other, variants in (("published", FLOATS), ("int8", BYTES)):
        best = fastest(row, other)
        cells.append(f"{best[0]} {best[1]:.3g} ms" if best else "")
        cells += [f"{value:.2f}x" if (value := ratio(row, v)) else "" for v in variants]
    return f"| {' | '.join(cells)} |"


def _scores(row: Row) -> str:
    scores, training = row["scores"], _training(row)
    names = ("onnxruntime, published", *(f"ours, {v}" for v in KEPT))
    cells = [f"{scores[name]:.3f}" if name in scores else "" for name in names]
    cells += [str(training.get(name, "")) for name in ("steps", "seconds")]
    return f"| {' | '.join([row['model'], row['measure'], *cells])} |"
