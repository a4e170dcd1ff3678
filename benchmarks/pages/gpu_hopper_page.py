"""The part of the GPU page with kernels that were written by hand: bounds, not what is compiled."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.gpu_times_page import table

Row = dict[str, Any]
Content = dict[str, Any] | None

LEFT_OUT = ("decoding", "products", "activations")


def lines(content: Content, grid: Content) -> list[str]:
    """Return the section; ``grid`` holds times of what the compiler makes."""
    rows = sorted(content["rows"] if content else [], key=_place)
    if not rows:
        return []
    where = sorted({f"{r['environment']['gpu']}, {r['environment']['date']}" for r in rows})
    return [
        "### Hopper: kernels written by hand",
        "",
        "Hand-written kernels, not what the compiler makes: they show what designs on `wgmma` are",
        "worth, and bound generated ones ([sources](../../benchmarks/gpu/hopper/README.md),",
        "[what follows](../design/cuda.md#what-wgmma-is-worth)). Each cell is by hand / the",
        "compiler's kernel of today (where one was measured alike) / cuBLAS on the dense weight,",
        f"in us: 8192 x 8192, fp16, {'; '.join(where)}. No bias, no activation function.",
        "`registers` (each value by a bit of a mask) and `bitmap` (scattered by a mask) lost:",
        "their sources are not kept, and their times are those of a first form of the kernels.",
        "",
        *_times(rows, (grid or {"rows": []})["rows"]),
        *_binds(rows),
    ]


def _place(row: Row) -> tuple[str, float, str, int]:
    return row["pattern"], row["sparsity"], row["design"], row["rows"]


def _times(rows: list[Row], grid: list[Row]) -> list[str]:
    """Return the table of times, a line for each weight and design."""
    counts = sorted({row["rows"] for row in rows})
    compiled = {one["case"]: one for one in grid if one.get("flush") == "clean"}
    cells: dict[tuple[str, str], dict[int, str]] = {}
    for row in rows:
        times = [row["times"]["by hand"]["median_us"], row["times"]["cublas"]["median_us"]]
        case = row["case"].split(", by hand")[0]
        if case in compiled:
            times.insert(1, _ours(compiled[case]))
        told = [f"{us:.1f}" for us in times]
        told = told if case in compiled else [told[0], "", told[1]]
        key = (case.split(", ")[-1], row["design"])
        cells.setdefault(key, {})[row["rows"]] = " / ".join(told).replace("/  /", "/ /")
    head = ["weight", "design", *(f"N = {n}" for n in counts)]
    return table(
        head, [[*key, *(found.get(n, "") for n in counts)] for key, found in cells.items()]
    )


def _ours(row: Row) -> float:
    """Return the time of our fastest kernel."""
    return float(min(t["median_us"] for name, t in row["times"].items() if name.startswith("ours")))


def _binds(rows: list[Row]) -> list[str]:
    """Return the table of what kernels take without one of their parts."""
    cells = []
    for row in rows:
        if found := row.get("ablation"):
            without = [found["without_us"].get(what) for what in LEFT_OUT]
            told = ["" if us is None else f"{us:.1f}" for us in without]
            weight = row["case"].split(", by hand")[0].split(", ")[-1]
            cells.append([weight, row["design"], f"{found['whole_us']:.1f}", *told])
    if not cells:
        return []
    head = ["weight", "design", "whole", *(f"without {what}" for what in LEFT_OUT)]
    return [
        "What binds: a first form of the kernels at N = 32 with a part left out (in us, wrong",
        "results; some in another shape than the fastest).",
        "",
        *table(head, cells),
    ]
