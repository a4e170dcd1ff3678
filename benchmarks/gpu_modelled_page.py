"""The part of the GPU page about what the executor of PTX counted: modelled tuning, its speed."""

from __future__ import annotations

from typing import Any


def lines(modelled: dict[str, Any] | None, speed: dict[str, Any] | None) -> list[str]:
    """Return the sections; none without results."""
    return [*(_tuning(modelled) if modelled else []), *(_speed(speed) if speed else [])]


def _tuning(modelled: dict[str, Any]) -> list[str]:
    cells = []
    for row in modelled["rows"]:
        best = row["best_us"] or row["default_us"]
        cells.append(
            f"| {row['case']} | {row['rule']} | {row['default_us']:.1f} | {best:.1f} | "
            f"{row['default_us'] / best:.2f}x | {row['trials']} | {row['failed']} |"
        )
    return [
        "## Tuning by a model",
        "",
        '**Modelled, not measured.** `ts.tune(..., by="model")` executes '
        f"{modelled['blocks']} thread blocks of each",
        "schedule under the sanitizer and counts what they do; registers and shared memory are the",
        "cubin's. Times follow from these and from",
        "[the assumptions](../../tvm_sparse/selection/cuda/assumptions.py). A schedule counts if",
        "it is 5 % faster than the default.",
        "",
        "| case | schedule rule | default (us) | best found (us) | gain | trials | failed |",
        "|---|---|---|---|---|---|---|",
        *cells,
        "",
    ]


def _speed(speed: dict[str, Any]) -> list[str]:
    rows = [
        f"| {row['kernel']} | {'on' if row['sanitizer'] else 'off'} | "
        f"{row['per_second'] / 1e6:.0f} million |"
        for row in speed["rows"]
    ]
    return [
        "## Speed of the executor",
        "",
        f"Instructions of lanes a second of one core ({speed['environment']['cpu']}).",
        "",
        "| kernel | sanitizer | instructions a second |",
        "|---|---|---|",
        *rows,
        "",
    ]
