"""What the GPU page says first: where a user gains, where not, and what was never run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.gpu.models import NETWORKS
from benchmarks.gpu.ratios import ratio_of
from benchmarks.pages.gpu_times_page import NOT_YET, TIMED, table

Row = dict[str, Any]
Measured = Mapping[str, Row | None]
Kind = Callable[[Row], bool]

BATCHES = {"1 to 8": (1, 8), "16 to 64": (16, 64), "256 to 4096": (256, 4096)}
"""Rows of activations N as a reader thinks of them."""


def _kind(pattern: str, least: float, most: float = 1.0) -> Kind:
    return lambda row: (
        row["pattern"].startswith(pattern) and least <= round(row["sparsity"], 2) <= most
    )


KINDS: dict[str, Kind] = {
    "nothing pruned": _kind("none", 0.0),
    "2:4": _kind("2:4", 0.0),
    "banks, 50 % zeros": _kind("balanced", 0.4, 0.6),
    "banks, 75 to 95 % zeros": _kind("balanced", 0.7),
    "blocks, 50 % zeros": _kind("block", 0.4, 0.6),
    "blocks, 75 to 95 % zeros": _kind("block", 0.7),
}
"""Kinds of weights in the benchmark's grid."""


def lines(measured: Measured) -> list[str]:
    """Return five sentences and the table that they rest on."""
    if not any(measured.values()):
        return [
            "**No kernel was measured on a GPU yet.** Every time below is modelled from data",
            "sheets.",
            "",
        ]
    rows = (measured["grid"] or {"rows": []})["rows"]
    found = {
        (kind, n): Span.of([row for row in rows if of_kind(row) and _within(row, n)], rows)
        for kind, of_kind in KINDS.items()
        for n in BATCHES
    }
    sparse, blocks, dense = (list(KINDS)[i] for i in (3, 5, 0))
    claims = [
        f"With N = {n} rows of activations, {_claim('blocks', found[blocks, n])}, "
        f"{_claim('banks of 32', found[sparse, n])}"
        for n in BATCHES
    ]
    sentences = [
        "Each figure is the time of the best library over ours, for an 8192 x 8192 weight in fp16 "
        f"with 75 to 95 % zeros. {claims[0]}.",
        f"{claims[1]}.",
        f"{claims[2]}, and {_claim('unpruned weights', found[dense, list(BATCHES)[2]])}: what "
        "loses belongs to a dense library.",
        _networks(measured),
        _never_run(measured),
    ]
    cells = [[kind, *(found[kind, n].told for n in BATCHES)] for kind in KINDS]
    head = ["8192 x 8192, fp16", *(f"N = {n}" for n in BATCHES)]
    return [*sentences, "", *table(head, cells)]


def _claim(what: str, span: Span) -> str:
    """Say whether ``what`` gains: all of its ratios, some, or none."""
    if not span.values:
        return f"{what} have no figure ({span.told})"
    gains, loses = min(span.values) > 1, max(span.values) <= 1
    return f"{what} {'gain' if gains else 'lose' if loses else 'gain or lose'} ({span.told})"


class Span:
    """The ratios of several rows, from the least to the largest, and how many are withdrawn."""

    def __init__(self, ratios: Sequence[float | None]) -> None:
        self.values = [ratio for ratio in ratios if ratio is not None]
        self.withdrawn = len(ratios) - len(self.values)

    @classmethod
    def of(cls, rows: Sequence[Row], everything: Sequence[Row]) -> Span:
        """Return the span of ``rows``, which are among ``everything`` of their file."""
        return cls([ratio_of(row, everything).value for row in rows])

    @property
    def told(self) -> str:
        """The span as text."""
        ends = dict.fromkeys(f"{end(self.values):.2f}" for end in (min, max) if self.values)
        kept = f"{' to '.join(ends)}x" if ends else ""
        gone = f"{self.withdrawn} withdrawn" if self.withdrawn else ""
        return "; ".join(part for part in (kept, gone) if part) or NOT_YET


def _within(row: Row, batch: str) -> bool:
    least, most = BATCHES[batch]
    return least <= row["rows"] <= most


def _networks(measured: Measured) -> str:
    """Say of whole networks what is known."""
    rows = (measured["models"] or {"rows": []})["rows"]
    told = []
    for row in rows:
        ratio = ratio_of(row, rows).value
        why = "withdrawn, its times hold the host's" if ratio is None else f"{ratio:.2f}x"
        told.append(f"{row['case']} ({why})")
    return f"Whole networks that were run, over the best of PyTorch: {', '.join(told) or 'none'}."


def _never_run(measured: Measured) -> str:
    """Say what nobody has run."""
    run = {row["case"] for row in (measured["models"] or {"rows": []})["rows"]}
    missing = [f"`{part}`" for part, content in measured.items() if not content]
    parts = [f"the parts {' '.join(missing)} of the benchmark"] if missing else []
    networks = [name for name in NETWORKS if name not in run]
    rows = [row for part in TIMED if measured[part] for row in measured[part]["rows"]]
    gpus = ", ".join(sorted({row["environment"]["gpu"] for row in rows})) or "none"
    return f"Never run: {'; '.join([*networks, *parts, f'any GPU but {gpus}'])}."
