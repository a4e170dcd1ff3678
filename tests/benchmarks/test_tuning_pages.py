"""The page of tuning: figures come from the results, as far as there are any."""

from __future__ import annotations

import json

import pytest

from benchmarks.harness import common
from benchmarks.pages import tuning_pages as subject

ENVIRONMENT = {
    "cpu": "CPU",
    "cores": 2,
    "threads": 1,
    "date": "2026-01-01",
    "versions": {"apache-tvm": "0"},
}


def task(layers, default, best, curve):
    return {
        "name": "f",
        "operator": "balanced",
        "layers": layers,
        "calls": 2,
        "trials": len(curve),
        "failed": 1,
        "default_us": default,
        "best_us": best,
        "speedup": default / best,
        "curve": curve,
    }


def row(slowest=None, per_task=64):
    tasks = [task(["a", "b"], 100.0, 80.0, [100.0, 80.0]), task(["c"], 50.0, 49.0, [50.0, 49.0])]
    return {
        "network": "resnet50",
        "batch": 1,
        "level": "87.5 %",
        "threads": 1,
        "slowest": slowest,
        "per_task": per_task,
        "tuning": {"trials": 4, "tasks": tasks},
        "times_us": {"default": 9000.0, "tuned": 8000.0},
        "gain": 1.125,
        "tuned_layers": 3,
        "environment": ENVIRONMENT,
    }


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    return tmp_path


def test_without_results_there_is_no_page(results):
    subject.write(results)
    assert not list(results.iterdir())


def test_the_page_has_every_figure(results):
    rate = {"trials": 32, "seconds": 60.0, "trials_a_minute": 32.0}
    rates = {"ours": rate, "stock": {**rate, "trials_a_minute": 2.0}, "ratio": 16.0}
    rates |= {"batch": 16, "workers": 2, "environment": ENVIRONMENT}
    (results / "tuning_throughput.json").write_text(json.dumps(rates))
    (results / "tuning.json").write_text(json.dumps({"rows": [row(), row(slowest=5)]}))
    pytest.importorskip("matplotlib")
    subject.write(results)
    page = (results / "tuning.md").read_text()
    for words in ("**16 times**", "1 of 2 become", "a and 1 more", "1.25x", "9.000", "**1.12x**"):
        assert words in page
    assert (results / "tuning.svg").read_text().startswith("<?xml")


def test_the_curves_are_of_the_longest_search():
    rows = [row(slowest=5, per_task=64), row(slowest=5, per_task=512), row(per_task=999)]
    rows[1]["tuning"]["tasks"] = rows[1]["tuning"]["tasks"][:1]
    assert len(subject.deepest(rows)) == 1
