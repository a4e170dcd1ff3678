"""The page of the trial of networks, from ``results/trial.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.common import RESULTS

Row = dict[str, Any]
SLOWER = 0.9
"""Speed over eager below which the page names a network."""

REFUSALS = ("InputError", "UnsupportedError")

_HEAD = """\
# Networks of timm, torchvision and transformers

Made by `python -m benchmarks.pages` from `benchmarks/results/trial.jsonl`, which `python -m
benchmarks.trial` writes: which networks `ts.compile` takes, right, and how fast. One of each
family, small, on small inputs, with a batch of one and random weights. One thread, in turns with
eager PyTorch. The machine had other work: compare the ratios, not the times.

* Pruned: 75 % of each weight of 64 or more inputs is zero: 12 of each bank of 16 input channels,
  where they are whole banks; the smallest of the whole weight otherwise.
* Open: the pruned network with an open batch, and with open lengths of tokens and sound. It is
  compared at four sizes, from one sample and from one token on, and timed at the example's.
* int8: what `ts.quantize` makes of the pruned network, compared with that program itself.
* Right: the largest error is below 5e-4 of the largest value of eager. In bytes, ties are
  rounded otherwise, which later layers enlarge: the mean difference is below 1.5 of what quantizing
  costs (two independent roundings of one network differ by 1.4 of it).
* Refused: an error of ours says what stands in the way. Failed: all else.
* Speed: the time of eager PyTorch in float32 over ours.

| networks of | weights | tried | right | refused | failed | speed, median | lowest |
|---|---|---:|---:|---:|---:|---:|---:|
"""


def write(pages: Path) -> None:
    """Write the page into the directory ``pages``, if there are results."""
    path = RESULTS / "trial.jsonl"
    if path.exists():
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        (pages / "trial.md").write_text(page(rows), encoding="utf-8")


def page(rows: list[Row]) -> str:
    """Return the page of these rows."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["source"], row["mode"]), []).append(row)
    failed = [row for row in rows if "error" in row and not _refused(row)]
    slow = [row for row in rows if row.get("slow") or row.get("speed", 1) < SLOWER]
    parts = [_HEAD, *(_summary(*key, group) for key, group in groups.items())]
    parts += _list("Refused", [f"{_name(r)}: {r['error']}" for r in filter(_refused, rows)])
    parts += _list("Failed", [f"{_name(row)}: {row['error']}" for row in failed])
    parts += _list("Slow", [_slow(row) for row in slow])
    return "".join(parts)


def _summary(source: str, mode: str, rows: list[Row]) -> str:
    speeds = [row["speed"] for row in rows if "error" not in row]
    refused = sum(map(_refused, rows))
    cells = [source, mode, len(rows), len(speeds), refused, len(rows) - len(speeds) - refused]
    cells += [f"{median(speeds):.2f}", f"{min(speeds):.2f}"] if speeds else ["", ""]
    return f"| {' | '.join(map(str, cells))} |\n"


def _refused(row: Row) -> bool:
    return row.get("error", "").startswith(REFUSALS)


def _name(row: Row) -> str:
    return f"{row['name']} ({row['mode']})"


def _slow(row: Row) -> str:
    speed = f"{row['speed']:.2f} of eager's speed" if "speed" in row else "not timed"
    return "; ".join([f"{_name(row)}: {speed}", *row.get("slow", [])])


def _list(title: str, lines: list[str]) -> list[str]:
    return [f"\n## {title}\n\n", *(f"* {line}\n" for line in lines)] if lines else []
