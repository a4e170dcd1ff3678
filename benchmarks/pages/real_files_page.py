"""The page of published ONNX files: ``results/real_files.json``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.harness.common import load


def write(pages: Path) -> None:
    """Write ``real_files.md`` into ``pages``, if there are results."""
    found = load("real_files")
    if found:
        (pages / "real_files.md").write_text(page(found), encoding="utf-8")


def summary(found: Mapping[str, Any]) -> str:
    """Return how many files are right, as README says it."""
    rows = found["rows"]
    right = sum(row["state"] == "right" for row in rows)
    packages = len({row["package"] for row in rows})
    return f"{right} of {len(rows)} trained files of {packages} packages"


def page(found: Mapping[str, Any]) -> str:
    """Return the page: a line for each file."""
    versions = found["environment"]["versions"]
    text = [
        "# Published ONNX files, as they are",
        "",
        "Made by `python -m benchmarks.pages` from `benchmarks/results/real_files.json`, which",
        "`python -m benchmarks.real_files` writes: it fetches packages, compiles each trained file",
        "in them without any option, and compares the outputs with onnxruntime's "
        f"{versions.get('onnxruntime', '')} at",
        "two sizes of the open extents: the smallest, and a larger one.",
        "",
        f"**{summary(found)} compile as published and are right.**",
        "The error is the largest one, relative to the largest value of the output, or to 5e-4",
        "where that is smaller; up to 2e-3 is right. An extent beyond its sizes is one clear error",
        "when the library runs.",
        "A quantized file is `rounded` where its outputs differ from onnxruntime's and are as near",
        "to exact arithmetic: sums of another order round some values to the next step, and later",
        "layers spread it. The mean errors to double precision are then given. It does not count",
        "as right. It is `not judged` where ONNX's reference cannot run it. Files newer than the",
        "first ones were compiled on other days and machines: seconds are no comparison.",
        "",
        "| file | state | seconds to compile | open extents | error, or why not |",
        "|---|---|---:|---|---|",
    ]
    text += ["| " + " | ".join(_cells(row)) + " |" for row in found["rows"]]
    return "\n".join(text) + "\n"


def _cells(row: Mapping[str, Any]) -> list[str]:
    bounds = row.get("bounds", {}).items()
    extents = ", ".join(f"{name}: {_range(*limits)}" for name, limits in bounds)
    error = f"{row['error']:.1e}" if "error" in row else _short(row.get("why", ""))
    if "distances" in row:
        means = ", ".join(f"{name} {value:.1e}" for name, value in row["distances"].items())
        error = f"{error} (to exact: {means})"
    return [row["file"], row["state"], f"{row.get('seconds', '')}", extents or "-", error]


def _range(low: int, high: int | None) -> str:
    return f"{low} and more" if high is None else f"{low} to {high}"


def _short(why: str) -> str:
    """Return the beginning of a message, as a cell."""
    text = why.split("; expected ", maxsplit=1)[0].replace("|", "\\|").replace("*", "\\*")
    return text if len(text) <= 200 else f"{text[:200]} ..."
