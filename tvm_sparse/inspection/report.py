"""The result of an inspection: one row a layer, as data, as text and as a table."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from rich.table import Table

from tvm_sparse.base import terminal
from tvm_sparse.base.markup import html_table
from tvm_sparse.patterns.base import Fit

_TEXT_WIDTH = 160
_UNLIKELY = 1e-6
"""A smaller chance that a random mask agrees as well is not worth a reader's time."""
FLOATS, BYTES = "float", "int8"
"""Precisions of weights."""

_SHOWN = 2
"""Near misses that the table shows; JSON has all."""


@dataclass(frozen=True)
class Row:
    """What is zero in one layer.

    Parameters
    ----------
    layer
        Fully qualified name of the layer.
    weight
        Fully qualified name of the tensor.
    kind
        ``"linear"``, ``"conv2d"``, ``"depthwise conv2d"``, ``"lstm hidden gates"``, …
    shape
        Shape of the weight, outputs first.
    sparsity
        Fraction of zeros.
    fit
        The pattern found, with its evidence.
    near_misses
        Other patterns that hold but for a few places, the cheapest first.
    storage
        How the model holds the weight: dense, masked, or a sparse layout.
    shared_with
        Other layers that use the same weight.
    precision
        ``"int8"`` where all weights of each feature are whole multiples, up to 127, of a step, as
        quantized ones are; else ``"float"``.
    note
        What the model itself says of the layer, as why it was not quantized.
    """

    layer: str
    weight: str
    kind: str
    shape: tuple[int, ...]
    sparsity: float
    fit: Fit
    near_misses: tuple[Fit, ...] = ()
    storage: str = "dense"
    shared_with: tuple[str, ...] = ()
    precision: str = FLOATS
    note: str = ""

    @property
    def pattern(self) -> str:
        """Phrase for the pattern, like ``"balanced 4 of 16"``; ``"nearly …"`` if not everywhere."""
        phrase = self.fit.pattern.describe()
        return phrase if self.fit.evidence.exact else f"nearly {phrase}"

    @property
    def evidence(self) -> str:
        """Why the pattern is claimed, in a phrase; empty where nothing is claimed."""
        return _agreement(self.fit)

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "layer": self.layer,
            "weight": self.weight,
            "kind": self.kind,
            "shape": list(self.shape),
            "sparsity": self.sparsity,
            "pattern": self.pattern,
            "fit": _plain(self.fit),
            "near_misses": [_plain(fit) for fit in self.near_misses],
            "storage": self.storage,
            "shared_with": list(self.shared_with),
            "precision": self.precision,
            "note": self.note,
        }


@dataclass(frozen=True, repr=False)
class Report:
    """The layers of a model in its order; ``str`` and :mod:`rich` print it as a table."""

    model: str
    rows: tuple[Row, ...] = ()

    @property
    def sparsity(self) -> float:
        """Fraction of zeros in all layers together."""
        sizes = [_size(row.shape) for row in self.rows]
        zeros = sum(row.sparsity * size for row, size in zip(self.rows, sizes, strict=True))
        return zeros / sum(sizes) if sizes else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return plain values: the model's name, its sparsity and its layers."""
        layers = [row.to_json() for row in self.rows]
        return {"model": self.model, "sparsity": self.sparsity, "layers": layers}

    def __rich__(self) -> Table:
        """Return the table that :mod:`rich` prints."""
        count = f"{len(self.rows)} layer{'' if len(self.rows) == 1 else 's'}"
        title = f"{self.model}: {count}, {_percent(self.sparsity)} zeros"
        table = terminal.table(title)
        for column in ("layer", "kind", "shape"):
            table.add_column(column, overflow="fold")
        table.add_column("sparsity", justify="right", no_wrap=True)
        for column in ("pattern", "evidence"):
            table.add_column(column, overflow="fold")
        for row in self.rows:
            shape = "x".join(str(extent) for extent in row.shape)
            facts = (row.layer, _kind(row), shape, _percent(row.sparsity), row.pattern)
            terminal.add_row(table, (*facts, _remarks(row)))
        return table

    def __repr__(self) -> str:
        zeros = _percent(self.sparsity)
        return f"<Report of {self.model}: {len(self.rows)} layers, {zeros} zeros>"

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        cells = (
            (r.layer, _kind(r), "x".join(map(str, r.shape)), _percent(r.sparsity), r.pattern)
            for r in self.rows
        )
        table = html_table(("layer", "kind", "shape", "sparsity", "pattern"), cells)
        return f"<p>{escape(repr(self))}</p>{table}"

    def __str__(self) -> str:
        text = io.StringIO()
        terminal.console(file=text, width=_TEXT_WIDTH, color_system=None).print(self)
        return text.getvalue().rstrip("\n")


def _agreement(fit: Fit) -> str:
    """Return what agrees with the pattern, and what a random mask would have done."""
    found = fit.evidence
    if found.chance >= 1 or fit.sparsity == 0:
        return ""
    rest = fit.summary().removeprefix(fit.pattern.describe()).lstrip("; ")
    parts = [f"all {found.total:,} {found.unit}s"] if found.exact else []
    parts += [rest] if rest else []
    if fit.order == "hwi":
        parts.append("along input channels")
    if found.chance > _UNLIKELY:
        parts.append(f"chance {found.chance:.0e}")
    return "; ".join(parts)


def _remarks(row: Row) -> str:
    lines = [row.evidence, *(f"nearly {fit.summary()}" for fit in row.near_misses[:_SHOWN])]
    if row.shared_with:
        lines.append("shared with " + ", ".join(row.shared_with))
    return "\n".join(line for line in (*lines, row.note) if line)


def _kind(row: Row) -> str:
    remarks = [r for r in (row.storage, row.precision) if r not in ("dense", FLOATS)]
    return f"{row.kind} ({', '.join(remarks)})" if remarks else row.kind


def _plain(fit: Fit) -> dict[str, Any]:
    return {
        "kind": fit.pattern.kind,
        "description": fit.pattern.describe(),
        "parameters": asdict(fit.pattern),
        "order": fit.order,
        "evidence": {**asdict(fit.evidence), "exact": fit.evidence.exact},
    }


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f} %"


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for extent in shape:
        size *= extent
    return size
