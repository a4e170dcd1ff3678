"""The page of the ``torch.compile`` backend, from ``results/dynamo.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import common

_HEAD = """\
# torch.compile

Made by `python -m benchmarks.pages` from `benchmarks/results/dynamo.json`, which `python -m
benchmarks.dynamo` writes. Eager PyTorch, its own compiler inductor (with frozen weights) and the
backend `tvm_sparse` run the same module in turns in one process, with a batch of one.
{threads} thread, {cpu}, torch {torch}, {date}. The machine had other work: compare the ratios, not
the times.

Pruned: 14 of 16 weights of each bank are zero wherever the input channels are whole banks of 16.
The first call includes tracing, and loading from the cache that an earlier process has filled.

| network | weights | eager, ms | over eager | over inductor | first call, s | largest error |
|---|---|---:|---:|---:|---:|---:|
"""


def write(pages: Path) -> None:
    """Write the page into the directory ``pages``, if there are results."""
    if found := common.load("dynamo"):
        (pages / "torch_compile.md").write_text(page(found), encoding="utf-8")


def page(found: dict[str, Any]) -> str:
    """Return the page of the results."""
    made = found["environment"]
    facts = {"threads": made["threads"], "cpu": made["cpu"], "date": made["date"]}
    head = _HEAD.format(torch=made["versions"]["torch"], **facts)
    return head + "".join(map(_line, found["rows"]))


def _line(row: dict[str, Any]) -> str:
    times = row["us"]
    ours, eager, inductor = times["tvm_sparse"], times["eager"], times["inductor"]
    cells = (
        row["network"],
        "pruned" if row["pruned"] else "dense",
        f"{eager / 1e3:.1f}",
        f"{eager / ours:.2f}x",
        f"{inductor / ours:.2f}x",
        f"{row['first_call_s']:.1f}",
        f"{row['error']:.0e}",
    )
    return f"| {' | '.join(cells)} |\n"
