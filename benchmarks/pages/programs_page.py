"""The page of whole programs: ``results/text_reader.json`` and ``results/encoder.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.common import load

NAME = "programs.md"
THEIRS = "onnxruntime, published"
"""What a reader of text runs on as it is installed."""


def write(pages: Path) -> None:
    """Write the page into ``pages``, with a section for each result that there is."""
    reader, encoder = load("text_reader"), load("encoder")
    if reader or encoder:
        (pages / NAME).write_text(page(reader, encoder), encoding="utf-8")


def speed(rows: list[Mapping[str, Any]], program: str) -> float:
    """Return how many times as fast as installed a program reads pages, by the geometric mean."""
    times = {row["program"]: np.asarray(row["ms"]) for row in rows}
    return float(np.exp(np.log(times[THEIRS] / times[program]).mean()))


def verdict(rows: list[Mapping[str, Any]]) -> str:
    """Return the page's first sentence."""
    letters = {row["program"]: row["letters"] for row in rows}
    ours = [name for name in letters if name.startswith("ours") and name != "ours, published"]
    best = max(ours, key=lambda name: speed(rows, name))
    return (
        f"RapidOCR reads pages {speed(rows, 'ours, published'):.2f} times as fast with this "
        f"package in onnxruntime's place, and {speed(rows, best):.2f} times with "
        f"{best.removeprefix('ours, ')}: {letters[best]:.1%} of the letters are right, "
        f"{letters[THEIRS]:.1%} before."
    )


def page(reader: Mapping[str, Any], encoder: Mapping[str, Any]) -> str:
    """Return the page: a program that reads text, and one that encodes sentences."""
    text = [
        "# Programs around trained models",
        "",
        *([f"**{verdict(reader['rows'])}**", ""] if reader else []),
        "Made by `python -m benchmarks.pages`. A program is more than its networks: it also",
        "reads, cuts and sorts. Everything is timed here, one thread, in turns, medians.",
        *(_reading(reader) if reader else []),
        *(_encoding(encoder) if encoder else []),
    ]
    return "\n".join([*text, ""])


def _reading(reader: Mapping[str, Any]) -> list[str]:
    sizes = sorted({"x".join(map(str, size)) for size in reader["pages"]})
    text = [
        "",
        "## Reading text",
        "",
        "`python -m benchmarks.text_reader` (`results/text_reader.json`) runs the published",
        "package rapidocr-onnxruntime: three networks, whose extents follow from the page. Its",
        "code is unchanged; [two lines](../migration.md#sessions) put this package in",
        f"onnxruntime's place. {len(reader['pages'])} made pages of {', '.join(sizes)} pixels;",
        "zeros come from one pass without training. Speeds are geometric means over pages, beside",
        f"the package as it is installed.{_shared(reader)}",
        "",
        "| networks run on | letters read right | milliseconds a page | speed |",
        "|---|---:|---:|---:|",
    ]
    for row in reader["rows"]:
        gain = speed(reader["rows"], row["program"])
        cells = [row["program"], f"{row['letters']:.1%}", f"{np.median(row['ms']):.0f}"]
        text.append(f"| {' | '.join(cells)} | {gain:.2f}x |")
    return text


def _encoding(encoder: Mapping[str, Any]) -> list[str]:
    cases = list(encoder["rows"][0]["sentences_per_s"])
    text = [
        "",
        "## Encoding sentences",
        "",
        "`python -m benchmarks.encoder` (`results/encoder.json`): all-MiniLM-L6-v2 with an open",
        "batch and an open length, behind `SentenceEncoder`. Sentences a second; columns say",
        "texts a call, and tokens of each. Texts are longer than what is kept of them, so the",
        "tokeniser reads more than in daily use. The cosine is to PyTorch's vectors; zeros come",
        f"from one pass without training.{_shared(encoder)}",
        "",
        f"| program | cosine | {' | '.join(cases)} |",
        f"|---|---:|{'---:|' * len(cases)}",
    ]
    for row in encoder["rows"]:
        cells = [f"{row['sentences_per_s'][case]:.0f}" for case in cases]
        text.append(f"| {row['program']} | {row['cosine']:.3f} | {' | '.join(cells)} |")
    return text


def _shared(found: Mapping[str, Any]) -> str:
    return " The machine was shared." if found["environment"].get("shared machine") else ""
