"""The page of a tuning session: every task, a falling curve, nothing from outside."""

from __future__ import annotations

import re

import pytest

from tvm_sparse.report.tuning import HEIGHT, WIDTH, points, render, write
from tvm_sparse.tuning.report import TaskReport, TuningReport


def task(curve, name="f", default=100.0):
    best = min(curve, default=default)
    return TaskReport(name, "balanced", ("a", "b"), 2, len(curve), 1, default, best, tuple(curve))


def report(*tasks, **changes):
    content = {"database": "d", "trials": 9, "seconds": 3.0, "skipped": {}, "broken_lines": 0}
    return TuningReport(tasks=tasks, **{**content, **changes})


def test_the_curve_steps_down_from_the_default():
    corners = [tuple(map(float, p.split(","))) for p in points(task([100, 100, 50, 25])).split()]
    assert corners == [
        (0, 0),
        (WIDTH * 3 / 4, 0),
        (WIDTH * 3 / 4, HEIGHT / 2),
        (WIDTH, HEIGHT / 2),
        (WIDTH, HEIGHT * 3 / 4),
        (WIDTH, HEIGHT * 3 / 4),
    ]


def test_a_task_without_trials_has_no_curve():
    assert points(task([])) == ""


def test_every_task_and_reason_is_shown():
    page = render(report(task([100, 80]), task([100], "g"), skipped={"h": "no space"}))
    assert page.count("<polyline") == 2
    for word in ("<td>f</td>", "<td>g</td>", "<td>h</td><td>no space</td>", "a, b", "1.25x"):
        assert word in page
    assert "Not tuned" not in render(report(task([100])))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"broken_lines": 3}, "3 lines there are not records"),
        ({"interrupted": True}, "interrupted"),
    ],
)
def test_what_went_wrong_is_said(change, words):
    assert words in render(report(**change))
    assert words not in render(report())


def test_self_contained_and_escaped(tmp_path):
    write(report(task([100], "<script>")), tmp_path / "page.html", "<script>alert(1)</script>")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert not re.search(r"(src|href)=", page)
