"""What terminals are shown: the text of users and files as it is, never read as markup."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tvm_sparse.base import names


def console(**options: Any) -> Console:
    """Return a console of :mod:`rich` that takes no text for markup, a colour or an emoji."""
    return Console(markup=False, emoji=False, highlight=False, **options)


def printable(text: str) -> str:
    """Return ``text`` with what would steer a terminal as escapes; lines stay lines."""
    return names.printable(text, "\n\t")


def plain(text: str) -> Text:
    """Return ``text`` for tables and titles, whichever console prints them."""
    return Text(printable(text))


def table(title: str = "") -> Table:
    """Return an empty table; fill it by :func:`add_row` alone."""
    heading = plain(title) if title else None
    if heading is not None:
        heading.stylize("bold")
    return Table(title=heading, title_justify="left", title_style="")


def add_row(table: Table, cells: Sequence[str]) -> None:
    """Add a row of plain text."""
    table.add_row(*map(plain, cells))
