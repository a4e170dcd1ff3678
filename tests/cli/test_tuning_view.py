"""What a running tuner shows: one line a step without a terminal, tables at the end."""

from __future__ import annotations

from types import SimpleNamespace

from rich.console import Console

from tests.tuning.networks import mlp, tasks
from tvm_sparse.cli.tuning_view import best_table, line, report_table, watch
from tvm_sparse.tuning.record import record_of
from tvm_sparse.tuning.report import report_of
from tvm_sparse.tuning.state import TaskState, TuningSession


def session():
    task = SimpleNamespace(
        name="fc",
        calls=3,
        layers=("a", "b"),
        workload=SimpleNamespace(operator="balanced"),
        instead_of="",
    )
    state = TaskState(task, None, 1e-4, None, ratios=[1.0, 0.5, None])
    return TuningSession(
        40,
        [state],
        phase="searching",
        current="fc",
        trials=20,
        marks=[(0.0, 0), (30.0, 20)],
    )


def text(renderable):
    console = Console(width=200, no_color=True)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def test_a_line_says_where_the_session_stands():
    shown = line(session())
    assert shown == "searching fc: 20/40 trials, 40 a minute, 0:30 left, best 2.00 x the default"
    assert line(TuningSession(8)) == "preparing: 0/8 trials, 0 a minute, unknown time left"


def test_without_a_terminal_each_step_is_a_line(capfd):
    with watch() as show:
        show(session())
    captured = capfd.readouterr()
    assert captured.err.startswith("searching fc: 20/40 trials")
    assert captured.out == ""


def test_on_a_terminal_there_is_a_table(monkeypatch, capfd):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    with watch() as show:
        show(session())
    assert "speed-up" in capfd.readouterr().err


def test_the_report_has_a_row_a_task():
    report = report_of(session(), database="d", seconds=9.0, broken_lines=0, interrupted=False)
    shown = text(report_table(report))
    for word in ("fc", "a +1", "100.0", "50.0", "2.00"):
        assert word in shown


def test_records_are_listed_with_their_gain():
    task = tasks(*mlp())[0]
    record = record_of(
        task.workload, task.space, task.space.default, seconds=2e-6, default_seconds=3e-6
    )
    shown = text(best_table([record]))
    for word in ("balanced", "S8 S4 S1 R4 R4", "1.50"):
        assert word in shown
