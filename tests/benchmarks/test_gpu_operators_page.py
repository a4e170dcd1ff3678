"""The table of single operators and what is said of it."""

from benchmarks.harness.common import load
from benchmarks.pages.gpu_operators_page import lines


def row(case, eager, ours):
    times = {"torch eager": {"median_us": eager}, "ours": {"median_us": ours}}
    where = {"gpu": "A GPU", "date": "2026-01-01"}
    return {"case": case, "shape": [8, 64], "times": times, "environment": where}


def test_slow_operators_are_named():
    text = "\n".join(lines({"rows": [row("fast", 20.0, 10.0), row("slow", 10.0, 40.0)]}))
    assert "| fast | 8 x 64 | 20.0 | 10.0 | 2.00x |" in text
    assert "1 of 2 are about as fast" in text
    assert "slow (0.25x)" in text
    assert "fast (2.00x)" not in text


def test_nothing_measured_says_nothing():
    assert lines(None) == []
    assert lines({"rows": []}) == []


def test_results_have_an_error_that_was_checked():
    rows = load("gpu_operators_alone")["rows"]
    assert len(rows) == len({one["case"] for one in rows}) == 33
    assert all(0 <= one["error"] <= 2e-2 for one in rows)
