"""One HTML file of a tuning session that opens offline: every task with its learning curve."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tvm_sparse.report.page import page

if TYPE_CHECKING:
    from tvm_sparse.selection.decisions import History
    from tvm_sparse.tuning.report import TaskReport, TuningReport

WIDTH, HEIGHT = 320, 80
"""Of a picture, in its own units."""


def write(report: TuningReport, path: Path, title: str = "Tuning") -> None:
    """Write the page of ``report`` to ``path``."""
    path.write_text(render(report, title), encoding="utf-8")


def render(report: TuningReport, title: str = "Tuning") -> str:
    """Return the page of a tuning session as HTML."""
    return page(
        "tuning.html",
        title=title,
        report=report,
        pictures=[points(task) for task in report],
        width=WIDTH,
        height=HEIGHT,
    )


def points(task: TaskReport | History) -> str:
    """Return the learning curve of ``task`` as points of an SVG polyline.

    From left to right the trials, from the lower edge (no time at all) to the upper one (the
    default's time) the best time so far: a step down for each improvement.
    """
    if not task.curve:
        return ""
    steps = [(0, task.default_us)]
    for trial, us in enumerate(task.curve, start=1):
        if us != steps[-1][1]:
            steps += [(trial, steps[-1][1]), (trial, us)]
    steps.append((len(task.curve), task.curve[-1]))
    across, down = WIDTH / len(task.curve), HEIGHT / task.default_us
    return " ".join(f"{x * across:.1f},{HEIGHT - us * down:.1f}" for x, us in steps)
