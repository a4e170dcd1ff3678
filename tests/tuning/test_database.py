"""The database: appended lines, torn ones, several writers, and which record counts."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.kernels import host
from tests.tuning.networks import lowered, mlp, tasks
from tvm_sparse.tuning.database import Database, default_path
from tvm_sparse.tuning.record import Record, record_of
from tvm_sparse.tuning.space import Point


@pytest.fixture(scope="module")
def task():
    return tasks(*mlp())[0]


def record(task, ratio=0.5, values=None, **changes):
    point = task.space.default if values is None else Point(0, values)
    times = {"seconds": ratio * 1e-5, "default_seconds": 1e-5} if ratio else {"error": "wrong"}
    made = record_of(task.workload, task.space, point, **times)
    return made.model_copy(update=changes)


def test_records_survive_the_file(task, tmp_path):
    records = [record(task), record(task, None), record(task, 0.8, confirmed=True)]
    Database(tmp_path).add(records)
    assert list(Database(tmp_path)) == records
    assert list(Database(tmp_path / "records.jsonl")) == records


def test_reading_creates_nothing(tmp_path):
    assert len(Database(tmp_path / "none")) == 0
    assert not list(tmp_path.iterdir())


def test_broken_lines_are_skipped_and_counted(task, tmp_path):
    good = record(task).model_dump_json()
    lines = [
        good,
        "{not json",
        json.dumps({**json.loads(good), "schema_version": 2}),
        json.dumps({**json.loads(good), "values": [0]}),
        json.dumps({**json.loads(good), "surprise": 1}),
        "",
        good,
    ]
    (tmp_path / "records.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    database = Database(tmp_path)
    assert (len(database), database.skipped) == (2, 4)


def test_a_torn_line_costs_only_itself(task, tmp_path):
    database = Database(tmp_path)
    database.add([record(task)])
    with database.path.open("ab") as file:
        file.write(record(task).model_dump_json().encode()[:40])
    database.add([record(task, 0.7)])
    again = Database(tmp_path)
    assert ([r.ratio for r in again], again.skipped) == (
        [pytest.approx(0.5), pytest.approx(0.7)],
        1,
    )


def test_what_another_process_appends_is_seen(task, tmp_path):
    first, second = Database(tmp_path), Database(tmp_path)
    second.add([record(task)])
    assert len(first) == 0
    first.refresh()
    assert len(first) == 1


def test_several_writers_lose_nothing(task, tmp_path):
    line = record(task).model_dump_json()
    code = (
        "import sys; from tvm_sparse.tuning.database import Database, Record\n"
        f"record = Record.model_validate_json({line!r})\n"
        f"database = Database({str(tmp_path)!r})\n"
        "for _ in range(50): database.add([record])\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [w.wait() for w in writers] == [0, 0]
    database = Database(tmp_path)
    assert (len(database), database.skipped) == (100, 0)


def best(task, tmp_path, *records):
    database = Database(tmp_path)
    database.add(records)
    found = database.best(task.workload, task.space)
    return found and found.ratio


@pytest.mark.parametrize(
    ("ratios", "expected"),
    [([0.9, 0.8, None], 0.8), ([0.97], None), ([1.2], None), ([None], None), ([], None)],
)
def test_the_fastest_counts_if_it_is_clearly_faster(task, tmp_path, ratios, expected):
    found = best(task, tmp_path, *(record(task, r) for r in ratios))
    assert found == (expected and pytest.approx(expected))


def test_confirmed_records_outweigh_single_measurements(task, tmp_path):
    found = best(task, tmp_path, record(task, 0.5), record(task, 0.96, confirmed=True))
    assert found == pytest.approx(0.96)


def test_a_small_gain_is_not_worth_another_schedule(task, tmp_path):
    assert best(task, tmp_path, record(task, 0.98, confirmed=True)) is None


def test_the_last_confirmation_of_a_schedule_counts(task, tmp_path):
    lucky, sober = (record(task, r, confirmed=True) for r in (0.5, 0.9))
    assert best(task, tmp_path, lucky, sober) == pytest.approx(0.9)
    assert best(task, tmp_path, record(task, 1.2, confirmed=True)) is None


def test_a_confirmed_default_stays(task, tmp_path):
    other = record(task, 0.5, confirmed=True, function="another")
    assert best(task, tmp_path, record(task, 1.0, confirmed=True), other) is None


def test_confirmed_records_of_another_epilogue_count_last(task, tmp_path):
    other = record(task, 0.5, function="another")
    assert best(task, tmp_path, other) is None
    assert best(task, tmp_path, other.model_copy(update={"confirmed": True})) == pytest.approx(0.5)
    assert best(task, tmp_path, record(task, 0.9)) == pytest.approx(0.9)


@pytest.mark.parametrize(
    "change",
    [
        {"rule_version": 99},
        {"default": (1, 1, 1, (8, 1), (1, 1))},
        {"rule": "Other"},
        {"target": "llvm other 2 threads"},
        {"operator": "x"},
    ],
)
def test_records_of_anything_else_do_not_count(task, tmp_path, change):
    assert best(task, tmp_path, record(task, 0.5, **change)) is None


def test_a_function_is_scheduled_by_its_best_record(task, tmp_path):
    values = next(
        values
        for rows in (1, 2, 4, 8)
        if (values := (rows, 4, 1, (1, 8 // rows), (1, 1))) != task.space.default.values
    )
    database = Database(tmp_path)
    assert database.schedule(task.func, host()) is None
    database.add([record(task, 0.5, values)])
    schedule = database.schedule(task.func, host())
    assert task.space.point(schedule).values == values


def test_records_that_do_not_fit_are_refused(task, tmp_path):
    database = Database(tmp_path)
    database.add([record(task, 0.5, (3, 4, 1, (1, 1), (1, 1)))])
    assert database.schedule(task.func, host()) is None


def test_records_serve_the_re_pruned_network(task, tmp_path):
    database = Database(tmp_path)
    database.add([record(task, 0.5)])
    masks = []
    for seed in (0, 10):
        mod = lowered(*mlp(seed))
        funcs = {g.name_hint: f for g, f in mod.functions_items()}
        first = funcs["fused_linear_balanced_relu"]
        masks.append(tasks(*mlp(seed))[0].fixed[2])
        assert database.schedule(first, host()) is not None
    assert (masks[0] != masks[1]).any()


def test_merging_takes_what_is_new(task, tmp_path):
    ours, theirs = Database(tmp_path / "a"), Database(tmp_path / "b.jsonl")
    common = record(task, 0.5)
    ours.add([common])
    theirs.add([common, record(task, 0.4), record(task, 0.4, confirmed=True)])
    assert ours.merge(theirs) == 2
    assert ours.merge(theirs) == 0
    assert len(Database(tmp_path / "a")) == 3


def test_bests_are_one_a_function(task, tmp_path):
    database = Database(tmp_path)
    database.add([record(task, 0.5), record(task, 0.4), record(task, 0.9, function="other")])
    database.add([record(task, 1.5, function="third")])
    assert sorted(r.ratio for r in database.bests()) == [pytest.approx(0.4), pytest.approx(0.9)]


def test_the_default_place_is_the_user_s():
    assert default_path().parts[-2:] == ("tvm-sparse", "tuning")


def test_lines_are_short_and_say_nothing_of_the_weights(task):
    line = record(task).model_dump_json(exclude_none=True)
    assert len(line) < 1000
    assert Record.model_validate_json(line).point == task.space.default
