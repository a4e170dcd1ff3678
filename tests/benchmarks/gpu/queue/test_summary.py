from pathlib import Path

from benchmarks.gpu.queue import summary as module
from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.steps import steps
from benchmarks.gpu.queue.summary import LINES, summary
from tests.benchmarks.gpu.queue.chip import Clock, piece, queue, step


def fail():
    raise ValueError("a long reason, " * 40)


def test_each_step_has_a_line_and_failures_follow(tmp_path):
    steps = [
        step("first", piece("1"), piece("2", fail), piece("3", skip="not built yet")),
        step("second", piece("4")),
    ]
    lines = summary(queue(tmp_path, *steps), 9.0).splitlines()
    assert lines[0].startswith("GPU queue on NVIDIA A1, ")
    assert lines[0].endswith("0.0 of 9 minutes, whole")
    assert "clocks.sm 1 MHz" in lines[1]
    assert lines[2] == "first (0.0 of 10 min): 1 done, 1 failed, 1 not built yet"
    assert lines[3] == "second (0.0 of 10 min): 1 done"
    assert lines[4].startswith("  failed: first: 2: ValueError: a long reason")
    assert max(map(len, lines)) <= 150


def test_it_has_twenty_lines_at_most(tmp_path):
    steps = [step(str(n), *(piece(str(i), fail) for i in range(5))) for n in range(10)]
    lines = summary(queue(tmp_path, *steps), 9.0).splitlines()
    assert len(lines) == LINES
    assert lines[-1] == "  and 43 more failed"


def test_what_was_kept_and_what_was_not_begun_is_said(tmp_path):
    clock = Clock()
    queue(tmp_path / "old", step("s", piece("1"), piece("2")))
    old = queue(tmp_path / "old", step("s", piece("1"), piece("2"))).store.lines
    steps = [step("s", piece("1"), piece("2")), step("t", piece("3", seconds=100.0))]
    found = queue(tmp_path / "new", *steps, earlier=old, minutes=1.0, clock=clock)
    text = summary(found, 1.0)
    assert "time over: run it again to go on" in text
    assert "s (0.0 of 10 min): 2 as before" in text
    assert "t (0.0 of 10 min): not begun" in text


def test_the_example_has_every_step():
    text = Path(module.__file__).with_name("example.txt").read_text(encoding="utf-8")
    _, last = text.rsplit("summary.txt:", 1)
    told = [line.partition(" (")[0] for line in last.splitlines() if " min): " in line]
    assert told == [step.name for step in steps(Background("", workers=0, ptx=False))]
    assert "not begun" not in last
