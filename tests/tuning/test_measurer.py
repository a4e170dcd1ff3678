"""Building and measuring for real: every result is checked before its time counts."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import tvm

from tests.kernels import host
from tests.tuning.networks import linear, relu, tasks, weights
from tvm_sparse.errors import UnsupportedError
from tvm_sparse.tuning.measurer import LocalMeasurer, Measured, _median
from tvm_sparse.tuning.space import Point


@pytest.fixture(scope="module")
def task():
    (task,) = tasks(lambda x: relu(linear(x, weights(0), "a")), (8, 64))
    return task


@pytest.fixture(scope="module")
def measurer(tmp_path_factory):
    with LocalMeasurer(host(), tmp_path_factory.mktemp("tuning"), builders=1) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def prepared(measurer, task):
    return measurer.prepare(task)


def other(task):
    return task.space.schedule(Point(0, (1, 4, 1, (1, 8), (1, 1))))


def wrong(task):
    """Return a schedule of another function: the ReLU lets twice the value through."""
    text = task.space.module.script()
    changed = re.sub(r"T\.float32\(0\.0\), (v\w*)\)", r"T.float32(0.0), T.float32(2.0) * \1)", text)
    assert changed != text
    return tvm.s_tir.Schedule(tvm.script.from_source(changed))


def test_the_truth_is_the_unscheduled_definition(task, prepared):
    x, values, indices = (np.load(prepared.directory / f"input{i}.npy") for i in range(3))
    values = (values.astype(np.uint32) << 16).view(np.float32)  # few rows: stored as bfloat16
    expected = np.load(prepared.directory / "expected0.npy")
    dense = np.zeros((64, 64))
    for o in range(64):
        for g in range(4):
            for k in range(4):
                index = indices[o // 16, g // 2, o % 16] >> (4 * (g % 2 * 4 + k)) & 15
                dense[o, g * 16 + index] += values[o // 16, g, k, o % 16]
    assert (expected == np.maximum(x @ dense.T, 0)).all()
    assert expected.any()


def test_times_come_with_the_default_s(measurer, task, prepared):
    baseline = measurer.baseline(prepared)
    assert baseline.seconds == baseline.default_seconds > 0
    (measured,) = measurer.measure(prepared, [other(task)], beat=1.0)
    assert measured.error is None
    assert 0.01 < measured.ratio < 100


def test_a_wrong_result_is_no_time(measurer, task, prepared):
    good, bad = measurer.measure(prepared, [other(task), wrong(task)], beat=1.0)
    assert good.seconds
    assert bad.seconds is None
    assert bad.error.startswith("WrongResultError: output 0 differs by up to")


def test_what_does_not_build_is_no_time(measurer, task, prepared):
    schedule = other(task)
    broken = schedule.mod["main"].with_attr("target", tvm.target.Target("cuda"))
    broken = tvm.s_tir.Schedule(tvm.IRModule({"main": broken}))
    bad, good = measurer.measure(prepared, [broken, schedule], beat=1.0)
    assert bad.error
    assert good.seconds


def test_comparing_takes_turns(measurer, task, prepared):
    measured = measurer.compare(prepared, [other(task), wrong(task)], rounds=2)
    assert measured[0].ratio > 0
    assert "WrongResult" in measured[1].error


def test_libraries_are_removed(measurer, task, prepared):
    before = sorted(prepared.directory.iterdir())
    measurer.measure(prepared, [other(task)], beat=1.0)
    assert sorted(prepared.directory.iterdir()) == before


def test_a_function_whose_reference_fails_is_refused(measurer, task):
    fixed = {**task.fixed, 2: np.full_like(task.fixed[2], 0)[:, :1]}
    with pytest.raises(UnsupportedError, match="cannot be measured"):
        measurer.prepare(dataclasses.replace(task, fixed=fixed))


class Stub(LocalMeasurer):
    """Plays back times by library name; the default's are a list."""

    def __init__(self, defaults, times):
        self.defaults, self.times, self.order = iter(defaults), times, []

    def run(self, libraries, directory):
        from tvm_sparse.tuning.pool import Outcome

        self.order.append(libraries)
        values = [next(self.defaults) if lib == "d" else self.times[lib] for lib in libraries]
        return [Outcome([v]) if v else Outcome(error="dead") for v in values]


class Place:
    default, directory = "d", None


def test_the_default_runs_between_schedules_and_its_best_counts():
    stub = Stub([9.0, 1.0, 5.0], dict.fromkeys("abcdefgh", 2.0) | {"d": None})
    names = [n for n in "abcefgh"]
    turn = stub._turn(Place, names)
    assert stub.order == [["d", *"abcefg", "d", "h", "d"]]
    assert {m.ratio for m in turn.values()} == {2.0}


def test_a_machine_that_runs_nothing_is_to_blame_itself():
    turn = Stub([None, None], {"a": None})._turn(Place, ["a"])
    assert turn["a"].machine_failed
    turn = Stub([1.0, None], {"a": None})._turn(Place, ["a"])
    assert not turn["a"].machine_failed
    assert turn["a"].error == "dead"


def test_medians_ignore_failures():
    turns = [Measured(2.0, 1.0), Measured(error="x"), Measured(9.0, 3.0), Measured(8.0, 2.0)]
    assert _median(turns).ratio == pytest.approx(3.0)
    assert _median([Measured(error="x")]).error == "x"
