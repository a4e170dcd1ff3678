"""The page and the pictures of whole networks in bytes, from ``results/cpu_models.json``."""

from __future__ import annotations

from pathlib import Path

from benchmarks.harness.common import load
from benchmarks.pages.model_pages import Row, environments, sorts, table, two_threads, write_page

LEVELS = ("ours dense", "ours 75 %", "ours 87.5 %", "ours 93.75 %")


def write(pages: Path) -> None:
    """Write page and pictures to the folder ``pages``, if there are results."""
    write_page(pages, "int8_models", "int8", page)


IN_BLOCKS = ("ours 75 % blocks", "ours 87.5 % blocks")

AMX = "cpu_models_amx"
"""Results of a CPU with AMX, which multiplies dense bytes in tiles."""

MUCH = 0.2
"""An error, relative to the largest value, that no trained network could bear."""


def page(rows: list[Row]) -> str:
    """Return the page as Markdown."""
    lines = [
        "# Whole quantized networks on a CPU",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/cpu_models.json`.",
        "onnxruntime's quantizer made one ONNX file of each network and sparsity: unsigned",
        "activations, signed weights with a scale a feature. Other runtimes read the dense file,",
        "ours its own. All in turns. Over eight inputs, outputs are at most 1.25 times as",
        "far from PyTorch's floats as those of the same file, computed operator by operator.",
        "",
        "A ratio is the time of the best int8 runtime over ours. In brackets: the time of the best",
        "float32 runtime over ours.",
        "",
        "![speed-up over sparsity](int8_models.svg)",
        "",
    ]
    for threads in sorted({row["threads"] for row in rows}):
        lines += [f"## {threads} thread{'s' if threads > 1 else ''}", ""]
        lines += table(*_ratios([row for row in rows if row["threads"] == threads]))
    lines += _in_tiles(load(AMX).get("rows", []))
    lines += two_threads(rows, LEVELS)
    lines += ["## Where the time goes", ""]
    lines += ["![time by sort of kernel](int8_models_time.svg)", "", *table(*sorts(rows))]
    lines += ["## Errors", ""]
    lines += ["Largest difference from PyTorch's floats, over the largest value.", *_lost(rows), ""]
    lines += [*table(*_errors(rows)), *environments(rows)]
    return "\n".join(lines) + "\n"


def _in_tiles(rows: list[Row]) -> list[str]:
    """Return the section on CPUs with AMX."""
    if not rows:
        return []
    return [
        "## On a CPU with AMX",
        "",
        "AMX multiplies dense bytes in tiles, eight times as many a clock as vectors. Dense layers",
        "take it, here and in other runtimes (of ours, the decision says `tiles`). So do blocks of",
        "16 features and a step of columns, 64 at most (`block_tiles`): steps of zeros are left",
        "out. Other formats multiply vectors: they gain where zeros are many. One thread.",
        "",
        *table(*_ratios(rows, (*LEVELS, *IN_BLOCKS))),
        *environments(rows)[2:],
        "",
    ]


def _ratios(
    rows: list[Row], measured: tuple[str, ...] = LEVELS
) -> tuple[list[str], list[list[str]]]:
    body = []
    for row in rows:
        float_us = row["times"][row["best_float"]]["median_us"]
        ended = [f"{n}: {s}" for n, s in row.get("crashed", {}).items() if n.endswith("int8")]
        cells = ["; ".join([_named(row, "best_dense"), *ended]), _named(row, "best_float")]
        for level in measured:
            us = row["times"].get(level, {}).get("median_us")
            cells.append(f"{row['ratios'][level]:.2f} ({float_us / us:.1f})" if us else "")
        body.append([row["network"], *cells])
    levels = [level.removeprefix("ours ") for level in measured]
    return ["network", "best int8 (ms)", "best float32 (ms)", *levels], body


def _named(row: Row, which: str) -> str:
    name = row[which]
    return f"{name} {row['times'][name]['median_us'] / 1e3:.2f}"


def _errors(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    names = [n for n in dict.fromkeys(n for r in rows for n in r["errors"]) if "int8" in n]
    names += LEVELS
    rows = [row for row in rows if row["threads"] == 1]
    body = [[r["network"], *(_percent(r["errors"].get(n)) for n in names)] for r in rows]
    return ["network", *names], body


def _lost(rows: list[Row]) -> list[str]:
    """Say of which networks every runtime loses much: their weights are random."""
    errors = {r["network"]: [e for n, e in r["errors"].items() if "int8" in n] for r in rows}
    names = [name for name, found in errors.items() if found and min(found) > MUCH]
    if not names:
        return []
    lost = ", ".join(names)
    return [
        f"Every runtime loses much of {lost}, whose weights are random: one scale for a tensor",
        "does not do for its activations. Such a row says something about time only.",
    ]


def _percent(error: float | None) -> str:
    return "" if error is None else f"{error:.1%}"
