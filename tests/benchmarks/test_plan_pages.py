import pytest

from benchmarks.pages import plan_pages
from benchmarks.plans import equal

PLAN = {
    "speedup": 2.0,
    "promised_ms": 1.0,
    "ms": 1.02,
    "off": 0.02,
    "kept": True,
    "corrected": True,
    "zeros": 0.6,
    "predicted_drop": 0.02,
    "drop": 0.01,
    "accuracy": 0.98,
    "again_seconds": 0.01,
    "uniform_drop": 0.04,
}
LEVEL = {"level": 0.5, "ms": 1.3, "drop": 0.02, "accuracy": 0.9}
RESULT = {
    "environment": {"cpu": "a CPU", "threads": 1, "date": "2026-11-27"},
    "dense_ms": 2.0,
    "tables": {"seconds": 9.0, "processor_seconds": 8.0},
    "accuracy": 0.99,
    "plans": [PLAN, {"speedup": 9.0, "error": "out of reach"}],
    "uniform": [LEVEL, {**LEVEL, "level": 0.75, "ms": 0.9, "drop": 0.06}],
}
WITHOUT = {
    **{k: v for k, v in RESULT.items() if k != "accuracy"},
    "quick": True,
    "uniform": [LEVEL],
    "plans": [{**PLAN, "uniform_drop": None}],
}


def test_the_page_has_a_row_for_each_plan_and_level(tmp_path, monkeypatch):
    found = {"digits": RESULT, "minilm": WITHOUT}
    monkeypatch.setattr(plan_pages, "load", {"plans": found}.get)
    plan_pages.write(tmp_path)
    text = (tmp_path / "plans.md").read_text()
    row = "| 2x, corrected | 1 | 1.02 | +2.0% | 60.0% | 0.0100 | 0.0400 | 98.0% |"
    assert row in text and "| 9x | out of reach |" in text and "not that fast" in text
    assert "| 50.00% | 1.3 | 0.0200 | 90.0% |" in text and "8 seconds of one core" in text
    assert text.count("of layers that were pruned apart") == 1
    widths = {line.count("|") for line in text.splitlines() if line.startswith("| 9x")}
    assert widths == {row.count("|")}
    assert "<svg" in (tmp_path / "plans.svg").read_text()


def test_without_results_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(plan_pages, "load", lambda _: {})
    plan_pages.write(tmp_path)
    assert not list(tmp_path.iterdir())


def test_levels_are_read_at_the_time_of_a_plan():
    rows = RESULT["uniform"]
    assert equal(rows, 2.0, 1.1) == pytest.approx(0.04)
    assert equal(rows, 2.0, 1.65) == pytest.approx(0.01)
    assert equal(rows, 2.0, 2.5) == 0.0
    assert equal(rows, 2.0, 0.5) is None


def test_large_networks_have_a_section_of_their_own():
    row = {
        "network": "resnet50",
        "weights": 25_600_000,
        "seconds": 600.0,
        "processor_seconds": 354.0,
        "again_seconds": 0.04,
        "peak_gb": 3.1,
    }
    found = {"environment": RESULT["environment"], "rows": [row]}
    assert "| resnet50 | 25.6 M | 10.0 | 5.9 | 3.1 GB | 0.04 s |" in plan_pages.large(found)
    assert plan_pages.large({}) == ""
