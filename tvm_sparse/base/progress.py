"""Progress bars on terminals and in notebooks; elsewhere nothing is drawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

ReportProgress = Callable[[str, int, int], None]
"""``report(what, done, total)``, called after every unit of work."""


@contextlib.contextmanager
def bars() -> Iterator[ReportProgress]:
    """Yield a function that keeps one bar a task on stderr."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    from tvm_sparse.base import terminal

    console = terminal.console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    drawn = console.is_terminal or console.is_jupyter
    with Progress(*columns, console=console, disable=not drawn) as progress:
        tasks: dict[str, Any] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = progress.add_task(terminal.printable(what), total=total)
            progress.update(tasks[what], completed=done, total=total)

        yield report


def shown(given: ReportProgress | None) -> contextlib.AbstractContextManager[ReportProgress]:
    """Return ``given`` to be told of progress, or bars where nobody asks for it."""
    return bars() if given is None else contextlib.nullcontext(given)
