"""Tables that commands print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from tvm_sparse.base import terminal
from tvm_sparse.selection.decisions import Decision

DECISION_COLUMNS = ("layer", "pattern", "sparsity", "dense us", "sparse us", "chosen", "reason")


def decision_table(decisions: Iterable[Decision], title: str = "") -> Table:
    """Return one row a layer: what was found, what it costs, what was chosen and why."""
    rows = [
        (
            d.layer,
            d.pattern,
            percent(d.sparsity),
            microseconds(d.dense_us),
            microseconds(d.sparse_us),
            d.chosen,
            d.reason,
        )
        for d in decisions
    ]
    return table(DECISION_COLUMNS, rows, title)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """Return a table whose first column is text and whose numbers stand to the right."""
    result = terminal.table(title)
    rows = list(rows)
    for position, column in enumerate(columns):
        numbers = all(_is_number(row[position]) for row in rows)
        result.add_column(column, justify="right" if rows and numbers else "left", overflow="fold")
    for row in rows:
        terminal.add_row(result, row)
    return result


def percent(fraction: float) -> str:
    """Return ``fraction`` in per cent with one decimal."""
    return f"{100 * fraction:.1f} %"


def microseconds(value: float | None) -> str:
    """Return ``value`` with one decimal, a dash for ``None`` (not measured)."""
    return "-" if value is None else f"{value:.1f}"


def _is_number(text: str) -> bool:
    return text[:1].isdigit() or text in ("-", "")
