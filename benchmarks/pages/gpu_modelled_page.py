"""The part of the GPU page about what the executor of PTX counted: modelled tuning, its speed."""

from __future__ import annotations

from typing import Any

from benchmarks.pages.gpu_times_page import table

Content = dict[str, Any]


NEAR = 1.25
"""How far a modelled time may be above the foretold one, and from the measured one."""


def lines(*contents: Content | None) -> list[str]:
    """Return the sections of the grid, Hopper, tuning and speed; none of what has no results."""
    sections = zip((_grid, _hopper, _tuning, _speed), contents, strict=True)
    return [line for section, content in sections if content for line in section(content)]


def _grid(grid: Content) -> list[str]:
    """Return the measured grid, before and today: counts of the executor, times of the model."""
    rows = []
    for row in grid["rows"]:
        sides = [_side(row[side]) for side in ("before", "today")]
        times = [row["measured_us"], row["before"]["us"], row["today"]["us"], row.get("again_us")]
        told = ("" if us is None else f"{us:.1f}" for us in times)
        rows.append([row["case"], *told, *(f"{a}, {b}" for a, b in zip(*sides, strict=True))])
    head = ["case", "before, measured (us)", "before, *modelled*", "today, *modelled*"]
    head += ["today, measured", "tile", "passes", "conflicts", "barriers", "waits", "bytes"]
    return [
        "## The measured grid, before and today",
        "",
        f"*Before*: the kernel that an {grid['chip']} measured first, behind a flush that left",
        "written lines in L2. *Today*: the kernel that was chosen for the same weight",
        f"on {grid['environment']['date']}, measured where the GPU took that very kernel, behind",
        "one that left lines that were only read. Where the column is empty, the model was fitted",
        "to more times since, and chooses another one. **Modelled** times, and counts, were never",
        "measured: both sides by today's model, without written lines. Counts are those of the",
        "executor, of a",
        "thread block in a step (of a stream, which has no tile: in all): passes over shared",
        "memory, those that bank conflicts add, barriers and waits of a warp, bytes that",
        "are loaded; before, then today. *In 4*: the reduction is cut into four parts, and the",
        "times hold the kernel that adds them. Counts are those of the first kernel, of a row",
        "that has all of its blocks.",
        "",
        *table(head, rows),
    ]


def _side(side: Content) -> list[str]:
    """Return the cells of a kernel: its tile, and its counts."""
    counts = side["counts"]
    names = ("shared_passes", "bank_conflicts", "barriers", "waits", "load_bytes")
    tile = "x".join(map(str, side["tile"][:3])) if "tile" in side else "stream"
    # Older records have no parts.
    parts = (*side["tile"], 1)[3] if "tile" in side else side.get("warps", [1])[-1]
    whole = tile if parts == 1 else f"{tile} in {parts}"
    return [whole, *(f"{counts[name]:.0f}" for name in names)]


def _hopper(hopper: Content) -> list[str]:
    """Return the times of Hopper's kernels: modelled, foretold, and what a GPU took."""
    cells: dict[tuple[str, float], dict[int, str]] = {}
    late = [row for row in hopper["rows"] if row["us"] > NEAR * row["foretold_us"]]
    known = [row for row in hopper["rows"] if row["measured_us"]]
    right = [row for row in known if 1 / NEAR <= row["us"] / row["measured_us"] <= NEAR]
    slow = [row for row in known if row["measured_us"] > NEAR * row["foretold_us"]]
    for row in hopper["rows"]:
        mark = "**" if row in late else ""
        taken = f" ({row['measured_us']:.1f})" if row["measured_us"] else ""
        text = f"{mark}{row['us']:.1f}{mark} / {row['foretold_us']:.1f}{taken} {row['kernel']}"
        cells.setdefault((row["pattern"], row["zeros"]), {})[row["rows"]] = text
    counts = sorted({row["rows"] for row in hopper["rows"]})
    body = [[p, f"{z:.0%}", *(own.get(n, "") for n in counts)] for (p, z), own in cells.items()]
    return [
        "## Hopper by the model",
        "",
        "**Modelled, not measured**: 8192 x 8192 in fp16, code for sm_90a on an H200. Each cell is",
        "the modelled time of the compiler's fastest kernel for the pattern / the time that was",
        "foretold before any was there, in us, and the kernel. Within 25 % of the foretold times",
        f"are {len(hopper['rows']) - len(late)} of {len(hopper['rows'])}; the others are bold.",
        "",
        "In brackets stands what an H200 took: by `wgmma` with a kernel that was written by hand,",
        f"else with the compiler's own. Of these {len(known)} cells the model is within 25 % of",
        f"{len(right)}. What was foretold was too little: {len(slow)} measured times are more than",
        "25 % above it, too, and have three causes. Banks on `wgmma` clear and read a whole tile",
        "however few values are put into it, and are put there and multiplied in turns. Blocks at",
        "N = 4096 multiply at 58 % of the tensor cores' peak, and begin and end of a tile hide",
        "behind nothing there: at 95 % nearly half of the time. Streams multiply their 8 rows",
        "without tensor cores.",
        "",
        *table(["pattern", "zeros", *(f"N = {n}" for n in counts)], body),
    ]


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
        f"cubin's. Times follow from these, by the model of {modelled['environment']['date']}. A",
        "schedule counts if it is 5 % faster than the default.",
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
