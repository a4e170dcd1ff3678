"""The state of a session: rates, bests, curves, and the report made of them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from tvm_sparse.tuning import state as subject
from tvm_sparse.tuning.report import report_of
from tvm_sparse.tuning.state import TaskState, TuningSession


def state(ratios, calls=2, seconds=1e-4, confirmed=None, instead_of=""):
    task = SimpleNamespace(
        name="f",
        calls=calls,
        layers=("a",),
        workload=SimpleNamespace(operator="dense"),
        instead_of=instead_of,
    )
    return TaskState(task, None, seconds, None, ratios=ratios, confirmed=confirmed)


def test_the_curve_never_rises():
    assert state([1.0, 1.5, 0.8, None, 0.9, 0.5]).curve() == [1.0, 1.0, 0.8, 0.8, 0.8, 0.5]


def test_what_was_confirmed_counts():
    assert state([1.0, 0.5]).best == 0.5
    assert state([1.0, 0.5], confirmed=0.9).best == 0.9


def test_the_rate_is_of_the_last_batches(monkeypatch):
    now = iter([60.0, 120.0])
    monkeypatch.setattr(subject.time, "monotonic", lambda: next(now))
    session = TuningSession(100, started=0.0)
    assert session.rate == 0
    assert session.seconds_left is None
    session.count(30)
    assert (session.rate, session.seconds_left) == (30, 140)
    session.count(10)
    assert (session.rate, session.seconds_left) == (20, 180)


def test_the_report_sums_over_calls_and_never_shows_a_loss():
    session = TuningSession(10, [state([1.0, 0.5]), state([1.0, None], calls=1, confirmed=1.1)])
    session.skipped["g"] = "why"
    report = report_of(session, database="d", seconds=2.0, broken_lines=3, interrupted=True)
    assert report.default_us == pytest.approx(300)
    assert report.best_us == pytest.approx(200)
    assert [t.speedup for t in report] == pytest.approx([2.0, 1.0])
    assert [t.failed for t in report] == [0, 1]
    content = json.loads(json.dumps(report.to_json()))
    assert content["broken_lines"] == 3
    assert content["interrupted"] is True
    assert content["tasks"][0]["curve"] == pytest.approx([100.0, 50.0])


def test_formats_that_layers_could_have_are_no_part_of_the_sums():
    states = [state([1.0, 0.5]), state([1.0, 0.5], instead_of="balanced")]
    report = report_of(
        TuningSession(10, states), database="d", seconds=2.0, broken_lines=0, interrupted=False
    )
    assert [t.instead_of for t in report] == ["", "balanced"]
    assert report.default_us == pytest.approx(200)
    assert report.best_us == pytest.approx(100)
