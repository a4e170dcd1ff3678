"""The part of the GPU page with operators that are no sparse layer, one by one."""

from __future__ import annotations

from typing import Any

from benchmarks.gpu.ratios import ratio_of
from benchmarks.pages.gpu_times_page import table

Row = dict[str, Any]

CLOSE, SLOW = 0.95, 0.5
"""Ratios over PyTorch: as fast, and so slow that the operator is named."""

WHY = "Attention was three kernels here, one in PyTorch. It is one now, which no GPU has run."


def lines(content: dict[str, Any] | None) -> list[str]:
    """Return the section; its times are those of ``benchmarks/gpu/operators_alone.py``."""
    rows = content["rows"] if content else []
    if not rows:
        return []
    found = {row["case"]: ratio_of(row, rows).value for row in rows}
    ratios = {case: ratio for case, ratio in found.items() if ratio is not None}
    where = sorted({f"{r['environment']['gpu']}, {r['environment']['date']}" for r in rows})
    near = sum(ratio >= CLOSE for ratio in ratios.values())
    slow = [f"{case} ({ratio:.2f}x)" for case, ratio in ratios.items() if ratio < SLOW]
    return [
        "### Operators alone",
        "",
        "Operators of networks that are no sparse layer, in fp16, outputs verified",
        f"([cases](../../benchmarks/gpu/operators_alone.py)): {'; '.join(where)}. A ratio over 1",
        f"says that ours is faster. {near} of {len(ratios)} are about as fast as PyTorch or faster",
        f"({CLOSE}x or more). The slow ones, below {SLOW}x: {'; '.join(slow) or 'none'}. {WHY}",
        "",
        *table(
            ["operator", "input", "PyTorch eager (us)", "ours (us)", "ratio"],
            [_cells(row, found[row["case"]]) for row in rows],
        ),
    ]


def _cells(row: Row, ratio: float | None) -> list[str]:
    eager, ours = (row["times"][name]["median_us"] for name in ("torch eager", "ours"))
    told = "withdrawn" if ratio is None else f"{ratio:.2f}x"
    size = " x ".join(str(extent) for extent in row["shape"])
    return [row["case"], size, f"{eager:.1f}", f"{ours:.1f}", told]
