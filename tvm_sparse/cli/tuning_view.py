"""What a running ``tvm-sparse tune`` shows: a live table on a terminal, a log elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table

from tvm_sparse.base import terminal
from tvm_sparse.cli.console import note
from tvm_sparse.cli.tables import table

if TYPE_CHECKING:
    from tvm_sparse.tuning.record import Record
    from tvm_sparse.tuning.report import TuningReport
    from tvm_sparse.tuning.state import TaskState, TuningSession

COLUMNS = ("function", "layers", "calls", "trials", "default us", "best us", "speed-up")

ROWS = 20
"""Tasks that the live table shows, slowest first."""


@contextlib.contextmanager
def watch() -> Iterator[Callable[[TuningSession], None]]:
    """Yield a function to call with the session at every step."""
    console = terminal.console(stderr=True)
    if not console.is_terminal:
        yield lambda session: note(line(session))
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield lambda session: live.update(_live(session), refresh=True)


def line(session: TuningSession) -> str:
    """Return one line about the step that begins."""
    step = f"{session.phase} {session.current}".strip()
    done = f"{session.trials}/{session.budget} trials"
    state = next((s for s in session.states if s.task.name == session.current), None)
    best = f", best {1 / state.best:.2f} x the default" if state else ""
    return f"{step}: {done}, {session.rate:.0f} a minute, {_left(session)} left{best}"


def report_table(report: TuningReport) -> Table:
    """Return one row a task, slowest first."""
    rows = [
        (
            t.name,
            _few(t.layers),
            str(t.calls),
            str(t.trials),
            f"{t.default_us:.1f}",
            f"{t.best_us:.1f}",
            f"{t.speedup:.2f}",
        )
        for t in report
    ]
    return table(COLUMNS, rows)


def best_table(records: Sequence[Record]) -> Table:
    """Return one row a record: what it is about, what was decided, what that gained."""
    columns = ("operator", "extents", "target", "decisions", "us", "speed-up")
    rows = [
        (
            r.operator,
            r.computation.partition("]")[0].lstrip("["),
            r.target,
            " ".join(str(value).replace(" ", "") for value in r.values),
            f"{r.microseconds or 0:.1f}",
            f"{1 / (r.ratio or 1):.2f}",
        )
        for r in records
    ]
    return table(columns, rows)


def _live(session: TuningSession) -> Group:
    rows = [_row(state) for state in session.states[:ROWS]]
    more = f" ({len(session.states) - ROWS} more)" if len(session.states) > ROWS else ""
    return Group(table(COLUMNS, rows), terminal.plain(line(session) + more))


def _row(state: TaskState) -> tuple[str, ...]:
    default = state.default_seconds * 1e6
    return (
        state.task.name,
        _few(state.task.layers),
        str(state.task.calls),
        str(len(state.ratios)),
        f"{default:.1f}",
        f"{default * state.best:.1f}",
        f"{1 / state.best:.2f}",
    )


def _few(layers: tuple[str, ...]) -> str:
    """Return the first layer, and how many more there are."""
    return ", ".join(layers) if len(layers) < 2 else f"{layers[0]} +{len(layers) - 1}"


def _left(session: TuningSession) -> str:
    seconds = session.seconds_left
    if seconds is None:
        return "unknown time"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
