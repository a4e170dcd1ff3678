"""Tuning by a model: real kernels, executed and counted, and what becomes of the records."""

from __future__ import annotations

import dataclasses

import pytest

import tvm_sparse as ts
from benchmarks.gpu import tune
from benchmarks.gpu.cases import Case
from benchmarks.gpu.operators import LONG
from tests.cuda.kernels import needs_nvrtc, target
from tests.cuda.test_tuning import CASES, Fake
from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.measurer import ModelledMeasurer, _of_executed
from tvm_sparse.errors import InputError
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.record import MEASURED, MODELLED
from tvm_sparse.tuning.recorded import Modelled, Tuned, recorded_rules
from tvm_sparse.tuning.tuner import Settings, Tuner
from tvm_sparse_emulator.report import EmulationReport, Finding, Launch

COUNTS = {
    **{"shared": 0, "warps": {}, "lanes": {}},
    **{f.name: 0 for f in dataclasses.fields(Launch) if f.type == "int" and f.name != "blocks"},
}
TRIALS = Settings(trials=3, batch=2, population=8)


@pytest.fixture(scope="module")
def modelled(tmp_path_factory):
    """A task, and the database of a session by the model."""
    place = tmp_path_factory.mktemp("modelled")
    records = Database(place / "records")
    task = tune.task_of(CASES["stream"], target())
    (place / "work").mkdir()
    with ModelledMeasurer(target(), place / "work", 1) as measurer:
        session = Tuner(measurer, records, TRIALS).run([task])
    assert not session.skipped
    return task, records


@needs_nvrtc
def test_records_are_marked(modelled):
    _, records = modelled
    assert len(records) == 3
    for record in records:
        assert record.source == MODELLED
        assert not record.error
        assert not record.confirmed
        assert record.microseconds > 2  # what a launch costs
    assert records.bests() == []


@needs_nvrtc
def test_a_reduction_in_parts_has_times_too(tmp_path):
    """Of the kernel that adds parts, most were stored by blocks that are not executed."""
    task = tune.task_of(Case("long", LONG, "none", 0.0), target())
    with ModelledMeasurer(target(), tmp_path, 1) as measurer:
        session = Tuner(measurer, Database(tmp_path / "records"), TRIALS).run([task])
    assert not session.skipped
    (state,) = session.states
    assert [ratio for ratio in state.ratios if ratio]


def finding(kind, kernel):
    place = {"instruction": "ld", "line": 1, "thread": (0, 0, 0), "block": (0, 0, 0)}
    return Finding(kind, kernel, **place, buffer="1", detail="", times=1)


def test_only_memory_of_blocks_that_were_not_executed_may_be_unwritten():
    one = Launch("first", (8, 1, 1), (32, 1, 1), blocks=4, **COUNTS)
    two = dataclasses.replace(one, kernel="second")
    kinds = ("uninitialised", "first"), ("uninitialised", "second"), ("race", "second")
    findings = tuple(finding(*kind) for kind in kinds)
    left = _of_executed(EmulationReport((one, two), findings))
    assert [(f.kind, f.kernel) for f in left] == [kinds[0], kinds[2]]
    whole = dataclasses.replace(one, blocks=8)
    assert _of_executed(EmulationReport((whole, two), findings)) == list(findings)


@needs_nvrtc
def test_equal_schedules_take_equal_times_and_only_measured_ones_count_as_such(modelled):
    task, records = modelled
    default = next(r for r in records if r.point == task.space.default)
    assert default.ratio == 1
    assert records.of(task.workload, task.space) == []
    assert len(records.of(task.workload, task.space, MODELLED)) == 3
    assert records.best(task.workload, task.space) is None


@needs_nvrtc
def test_compile_takes_them_until_something_is_measured(modelled, tmp_path):
    task, records = modelled
    own = Database(tmp_path)
    better = next(r for r in records if r.point != task.space.default)
    own.add([better.model_copy(update={"microseconds": better.default_microseconds / 2})])
    rules = recorded_rules(target(), own)
    assert [type(r) for r in rules][::2] == [Tuned, Modelled]
    assert Tuned(own).apply(task.func, target(), tunable=False) is None
    assert Modelled(own).apply(task.func, target(), tunable=False) is not None
    own.add([better.model_copy(update={"source": MEASURED})])
    assert Modelled(own).apply(task.func, target(), tunable=False) is None


@needs_nvrtc
def test_a_gpu_measures_them_first(modelled, tmp_path):
    task, records = modelled
    own = Database(tmp_path)
    better = next(r for r in records if r.point != task.space.default)
    own.add([better.model_copy(update={"microseconds": better.default_microseconds / 2})])
    Tuner(Fake(target(), tmp_path, 1), own, Settings(trials=2, batch=1, population=8)).run([task])
    measured = [r for r in own if r.source == MEASURED]
    assert [r.point for r in measured[:2]] == [task.space.default, better.point]


def test_what_there_is_no_model_of_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"'model' for target 'cpu:.*target 'cuda'"):
        ModelledMeasurer(parse_target("cpu").target, tmp_path)
    with pytest.raises(InputError, match="'guess'"):
        ts.tune(None, by="guess")
    with pytest.raises(InputError, match="nothing is measured by a model"):
        ts.tune(None, target="cuda:sm_90", by="model", tracker="localhost:9190", key="gpu")
