"""The page of models as users have them, from ``results/model_zoo.json``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.harness import common

_HEAD = """\
# Models as they are

Made by `python -m benchmarks.pages` from `benchmarks/results/model_zoo.json`, which `python -m
benchmarks.model_zoo` writes. Each model runs through `torch.compile(backend="tvm_sparse")` and through
`ts.compile`, with the arguments that its users pass. Weights are random. Widths are those of the real
models; encoders and language models have two layers, vocabularies 5,000 words. A batch is one, but
for the recommender (256).
{threads} thread, {cpu}, torch {torch}, {date}. The machine had other work: compare the ratios, not
the times.

* Pruned: 14 of 16 weights of each bank are zero wherever the inputs are whole banks of 16.
* Formats are chosen by the cost model, not by measuring.
* Over eager: eager PyTorch's time over ours, in turns, through `torch.compile`. Over inductor: the
  same of PyTorch's own compiler with frozen weights, where it was run.
* Ours: the share of time in kernels with a schedule rule of their own. General: in loops that our
  general schedule runs; most are TVM's definitions, norms and reshapes are ours. Unscheduled: in loops
  that nothing of ours scheduled.
* Largest: the kernel of the last two that takes most, and its share.
* Error: the largest difference to eager PyTorch in float64 over the largest value, of both ways.
* Compiled in: seconds of `ts.compile`.

| model | weights | eager, ms | over eager | over inductor | ours | general | unscheduled | largest | error | compiled in |
|---|---|---:|---:|---:|---:|---:|---:|---|---:|---:|
"""  # noqa: E501 (a table's row is one line)

_LEFT = "\nOperators that PyTorch runs: {}.\n"
_WHOLE = "\nEvery model is one compiled part: PyTorch runs none of its operators.\n"


def write(pages: Path) -> None:
    """Write the page into the directory ``pages``, if there are results."""
    if found := common.load("model_zoo"):
        (pages / "models.md").write_text(page(found["rows"]), encoding="utf-8")


def page(rows: list[dict[str, Any]]) -> str:
    """Return the page of the results."""
    made = rows[-1]["environment"]
    facts = {"threads": made["threads"], "cpu": made["cpu"], "date": made["date"]}
    head = _HEAD.format(torch=made["versions"]["torch"], **facts)
    left = [
        f"{row['model']} ({', '.join(row['left_to_pytorch'] + row['refused'])})"
        for row in rows
        if row["left_to_pytorch"] or row["refused"] or row["parts"] != 1
    ]
    end = _LEFT.format("; ".join(dict.fromkeys(left))) if left else _WHOLE
    return head + "".join(map(_line, rows)) + end


def _line(row: dict[str, Any]) -> str:
    times = row["us"]
    ours, eager, inductor = times["tvm_sparse"], times["eager"], times.get("inductor")
    cells = (
        row["model"],
        row["weights"],
        f"{eager / 1e3:.1f}",
        f"{eager / ours:.2f}x",
        f"{inductor / ours:.2f}x" if inductor else "",
        *(f"{100 * row[kind]:.0f} %" for kind in ("ours", "general", "unscheduled")),
        f"{100 * row['largest_share']:.0f} % `{row['largest'][:40]}`" if row["largest"] else "",
        f"{max(row['error'], row['error_library']):.0e}",
        f"{row['compile_s']:.0f} s",
    )
    return f"| {' | '.join(cells)} |\n"
