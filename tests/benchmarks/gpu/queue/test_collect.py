import json

import pytest

from benchmarks.gpu.queue import collect
from benchmarks.gpu.queue.store import Store
from benchmarks.gpu.stand_in import NAME
from benchmarks.harness import common
from tests.benchmarks.gpu.queue.chip import piece, queue, step

HERE = {"gpu": "NVIDIA A1", "date": "2026-12-01"}


@pytest.fixture(autouse=True)
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def test_rows_replace_older_ones_and_say_where_they_were_measured(tmp_path, results):
    results.mkdir()
    old = [{"case": "c", "us": 1, "contaminated": {"a": "why"}}, {"case": "d", "us": 2}]
    (results / "gpu_grid.json").write_text(json.dumps({"rows": old}))
    store = Store(tmp_path, "s")
    store.add("again", piece("c"), HERE, rows=[{"case": "c", "us": 3}])
    store.add("again", piece("e"), HERE, failed="why")
    assert collect.main(tmp_path) == 0
    rows = common.load("gpu_grid")["rows"]
    assert [(row["case"], row["us"]) for row in rows] == [("c", 3), ("d", 2)]
    assert rows[0]["environment"] == HERE
    assert "contaminated" not in rows[0]


def test_what_was_collected_is_not_run_again(tmp_path):
    steps = step("s", piece("1"), piece("2", key="x"))
    queue(tmp_path / "run", steps)
    assert collect.main(tmp_path / "run") == 0
    ledger = common.load(collect.LEDGER)["rows"]
    again = step("s", piece("1"), piece("2", key="y"))
    found = queue(tmp_path / "next", again, session="next", earlier=ledger)
    assert [line["piece"] for line in found.store.lines] == ["2"]


def test_the_stand_in_is_no_gpu(tmp_path, results, capsys):
    Store(tmp_path, "s").add("s", piece("1"), {"gpu": NAME}, rows=[{"case": "c"}])
    assert collect.main(tmp_path) == 1
    assert "which is no GPU" in capsys.readouterr().out
    assert not results.exists()


def test_an_empty_run_is_said_to_be(tmp_path, capsys):
    assert collect.main(tmp_path) == 1
    assert "holds no rows" in capsys.readouterr().out


def test_tuning_records_go_into_the_package_and_not_into_results(tmp_path, monkeypatch):
    shipped = []
    monkeypatch.setattr(collect, "ship", lambda path: shipped.append(path.read_text()))
    row = {"case": "c", "ratio": 0.5, "records": ['{"a": 1}', '{"b": 2}']}
    Store(tmp_path, "s").add("schedules", piece("c"), HERE, rows=[row])
    assert collect.main(tmp_path) == 0
    assert shipped == ['{"a": 1}\n{"b": 2}\n']
    assert "records" not in common.load("gpu_grid")["rows"][0]


def test_the_chip_is_fitted_again_and_an_unknown_one_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(collect, "refitted", lambda: ["H200: fitted"])
    Store(tmp_path, "s").add("again", piece("c"), HERE, rows=[{"case": "c"}])
    assert collect.main(tmp_path) == 0
    told = capsys.readouterr().out
    assert "H200: fitted" in told
    assert "NVIDIA A1: no chip of the cost model" in told


def test_tuned_times_of_a_library_outlive_a_run_that_does_not_tune():
    tuned = {"median_us": 2.0}
    old = {
        "case": "c",
        "flush": "clean",
        "times": {collect.TUNED: tuned, "ours block": {"median_us": 3.0}},
        "errors": {collect.TUNED: 0.1},
        "environment": {**HERE, "date": "2026-11-01"},
    }
    row = {
        "case": "c",
        "flush": "clean",
        "times": {"ours block": {"median_us": 1.0}},
        "libraries_sparse": ["cusparse csr"],
    }
    found = collect.with_tuned(row, [old], HERE)
    assert found["times"] == {"ours block": {"median_us": 1.0}, collect.TUNED: tuned}
    assert found["libraries_sparse"] == ["cusparse csr", collect.TUNED]
    assert found["kept"] == {collect.TUNED: "2026-11-01"}
    later = collect.with_tuned(row, [{**found, "environment": HERE}], HERE)
    assert later["kept"] == {collect.TUNED: "2026-11-01"}
    for other in (
        {"environment": {**HERE, "gpu": "NVIDIA A2"}},
        {"flush": "dirty"},
        {"contaminated": {collect.TUNED: "why"}},
        {"case": "d"},
    ):
        assert collect.with_tuned(row, [{**old, **other}], HERE) == row
