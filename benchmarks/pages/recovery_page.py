"""The page of trained modules that were pruned and trained again: ``results/recovery.json``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.common import load
from benchmarks.pages.machines import machines
from benchmarks.pages.real_models_page import Row, fastest

FLOAT, BYTES = "float32", "int8"


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
        "`ts.prune.distil` for so many steps of 32 samples, without labels. Scores are of compiled",
        "libraries, one sample a call; in square brackets those of inputs of another kind, which",
        "nothing was trained with. *Cosine*: of the outputs to the dense module's. Seconds are",
        "processor time, all together. Other runtimes have the dense module; one thread.",
        *machines(rows, "module"),
    ]
    for row in rows:
        text += ["", *_module(row)]
    return "\n".join(text) + "\n"


def _module(row: Row) -> Iterator[str]:
    networks = row["networks"]
    yield f"## {row['module']}"
    yield ""
    yield f"Score: {row['measure']} [{row['other']}]."
    for precision in (FLOAT, BYTES):
        if best := fastest(row, precision):
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
            _ratio(row, name, FLOAT),
            _ratio(row, name, BYTES),
        ]
        yield f"| {' | '.join(cells)} |"
    for name, facts in networks.items():
        if name.endswith(f", {FLOAT}") and facts.get("off") and "trained" not in name:
            yield ""
            yield f"{name.rpartition(', ')[0]}: {_promise(facts['off'])}."


def _promise(off: list[float]) -> str:
    """Return how far the compiled network is off what the plan promised; then, corrected."""
    told = f"the compiled network was {off[0]:+.1%} off the promised time"
    return told + (f", that of the corrected plan {off[1]:+.1%}" if len(off) > 1 else "")


def _pair(facts: Mapping[str, Any], key: str) -> str:
    return f"{facts[key]:.3f} [{facts[f'other {key}']:.3f}]"


def _ratio(row: Row, name: str, precision: str) -> str:
    ours, best = row["ms"].get(f"ours, {name}, {precision}"), fastest(row, precision)
    return f"{best[1] / ours:.2f}x" if ours and best else ""
