"""The page of trained modules that were pruned and trained again: ``results/recovery.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.common import load
from benchmarks.pages.machines import machines

FLOAT, BYTES = "float32", "int8"
OTHERS = ("onnxruntime", "openvino")
Row = Mapping[str, Any]


def write(pages: Path) -> None:
    """Write ``recovery.md`` into ``pages``, if there are results."""
    found = load("recovery")
    if found:
        (pages / "recovery.md").write_text(page(found), encoding="utf-8")


def page(found: Mapping[str, Any]) -> str:
    """Return the page: a table for each module."""
    rows = found["rows"]
    text = [
        "# Trained modules: pruned, and trained again",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/recovery.json`, which",
        "`python -m benchmarks.recovery` writes. Modules and inputs come from packages.",
        "Banks of 16. *One-shot*: `ts.prune.one_shot`, no training. *Trained*: then",
        "`ts.prune.distil` for so many steps of 32 samples, without labels. *Planned*: a plan",
        "chose each layer's zeros. Scores are of compiled libraries, one sample a call; in square",
        "brackets those of inputs of another kind, which nothing was trained with. *Cosine*: of",
        "the outputs to the dense module's. Seconds are processor time, all together.",
        *machines(rows, "module"),
    ]
    for row in rows:
        text += ["", *_module(row)]
    return "\n".join(text) + "\n"


def _module(row: Row) -> Iterator[str]:
    networks, times = row["networks"], row.get("ms", {})
    yield f"## {row['module']}"
    yield ""
    yield f"Score: {row['measure']} [{row['other']}]."
    for precision in (FLOAT, BYTES):
        best = _fastest(times, precision)
        if best:
            yield f"Fastest other runtime in {precision}: {best[0]}, {best[1]:.3g} ms."
    yield ""
    yield (
        "| network | zeros | steps | score | int8 | cosine | seconds | "
        "times the fastest other | int8 |"
    )
    yield "|---|---:|---:|---|---|---|---:|---:|---:|"
    for name in dict.fromkeys(key.rpartition(", ")[0] for key in networks):
        own = networks[f"{name}, {FLOAT}"]
        less = networks.get(f"{name}, {BYTES}")
        cells = [
            name,
            f"{own['zeros']:.1%}",
            f"{own.get('steps', 0)}",
            _pair(own, "score"),
            _pair(less, "score") if less else "",
            _pair(own, "cosine"),
            f"{own['seconds']:.0f}",
            _ratio(times, name, FLOAT),
            _ratio(times, name, BYTES),
        ]
        yield f"| {' | '.join(cells)} |"


def _pair(facts: Mapping[str, Any], key: str) -> str:
    return f"{facts[key]:.3f} [{facts[f'other {key}']:.3f}]"


def _fastest(times: Mapping[str, float], precision: str) -> tuple[str, float] | None:
    """Return the fastest other runtime with the dense module, and its milliseconds."""
    known = {name: ms for name in OTHERS if (ms := times.get(f"{name}, {precision}"))}
    best = min(known, key=known.__getitem__, default=None)
    return None if best is None else (best, known[best])


def _ratio(times: Mapping[str, float], name: str, precision: str) -> str:
    ours, best = times.get(f"ours, {name}, {precision}"), _fastest(times, precision)
    return f"{best[1] / ours:.2f}x" if ours and best else ""
