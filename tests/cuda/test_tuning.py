"""The whole tuner on CUDA tasks: real searches and builds, a stand-in for the driver."""

from __future__ import annotations

import pytest

import tvm_sparse as ts
from benchmarks.gpu import prepare, tune
from benchmarks.gpu.cases import Case
from tests.cuda.kernels import needs_nvrtc, target
from tests.tuning.fakes import FakeMeasurer
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.errors import InputError, UnsupportedError
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.tuning.build import build
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.measurer import LocalMeasurer
from tvm_sparse.tuning.tuner import Settings

CASES = {
    "stream": Case(
        "tiny", Contraction((1,), 512, 256, numerics=Numerics.uniform("float16")), "balanced", 0.75
    ),
    "tile": Case(
        "tiny", Contraction((64,), 512, 256, numerics=Numerics.uniform("float16")), "balanced", 0.75
    ),
}

QUICK = Settings(trials=16, batch=8, population=12)


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BUILT", tmp_path / "built")
    seen = []
    monkeypatch.setattr(tune, "ship", seen.append)
    return seen


class Fake(FakeMeasurer):
    """Times fall as more of the first split is inside of a thread block."""

    def __init__(self, target, place, workers):
        super().__init__(target)

    def ratio(self, values, default):
        return values[0][0] / default[0][0]


@pytest.mark.grid
@pytest.mark.parametrize("name", ["stream", "tile"])
def test_better_schedules_are_found_and_recorded(name, shipped):
    case = CASES[name]
    options = {
        "deadline": float("inf"),
        "workers": 1,
        "cases": [case],
        "measure": Fake,
        "settings": QUICK,
    }
    (row,) = tune.rows(set(), "cuda:sm_90", **options)
    assert row["case"] == case.name
    assert row["ratio"] < 1
    assert row["best"] != row["default"]
    records = Database(shipped[0])
    assert {r.target for r in records} == {"cuda sm_90"}
    assert len({r.values for r in records if not r.confirmed}) == row["trials"] <= 16
    assert not list(tune.rows({case.name}, "cuda:sm_90", **options))


def test_a_case_goes_on_after_the_deadline(shipped):
    case = CASES["tile"]
    options = {"workers": 1, "cases": [case], "measure": Fake, "settings": QUICK}
    assert not list(tune.rows(set(), "cuda:sm_90", deadline=0.0, **options))
    assert not shipped
    (row,) = tune.rows(set(), "cuda:sm_90", deadline=float("inf"), **options)
    assert row["trials"] == 16


@needs_nvrtc
def test_workers_build_machine_code_without_a_gpu(tmp_path):
    task = tune.task_of(CASES["stream"], target())
    path = build(task.space.variants[0].mod, target(), str(tmp_path / "library.so"))
    data = (tmp_path / "library.so").read_bytes()
    assert path.endswith("library.so")
    assert b"cubin" in data
    assert b"__global__" not in data


def test_measuring_needs_a_gpu(tmp_path):
    with pytest.raises(UnsupportedError, match="this machine has no NVIDIA GPU"):
        LocalMeasurer(target(), tmp_path)
    with pytest.raises(InputError, match="does not run here"):
        ts.tune(None, target="cuda:sm_90")


SESSION = """
import json, pathlib, sys
from tests.cuda.test_tuning import CASES
from benchmarks.gpu import prepare, tune
from tvm_sparse.tuning.tuner import Settings
prepare.BUILT = pathlib.Path({place!r})
tune.ship = lambda path: None
quick = Settings(trials=2, population=8)
options = dict(deadline=1e30, workers=1, cases=[CASES["stream"]], settings=quick)
rows = tune.rows(set(), "cuda:sm_90", **options)
print(json.dumps(list(rows)))
"""


@pytest.mark.slow
@needs_nvrtc
def test_a_session_on_the_stand_in(fake_cuda, tmp_path):
    (row,) = fake_cuda.run(SESSION.format(place=str(tmp_path)))
    assert row["trials"] == 2
    assert row["failed"] == 0
    records = list(Database(tmp_path / "records"))
    assert len(records) >= 2
    assert not any(record.error for record in records)
    names = {launch.kernel for launch in fake_cuda.launches()}
    assert names == {"main_kernel"}
