import json

import pytest

from benchmarks.gpu import __main__ as run
from benchmarks.gpu import device, jobs, metrics, prepare, results
from benchmarks.gpu.cases import Case
from benchmarks.harness import common
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.ops.contractions.contraction import Contraction

CASE = Case("tiny", Contraction((1,), 64, 32, numerics=Numerics.uniform("float16")), "none", 0.0)

CHOSEN = ["--no-tune-libraries", "--repeats", "7", "--flush", "dirty"]


class Chip:
    """A device that takes calls or does not."""

    def __init__(self, works):
        self.works = lambda: works


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BUILT", tmp_path / "built")
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setitem(jobs.LAYERS, "grid", lambda: [CASE])


@pytest.fixture
def pretended(monkeypatch):
    """A GPU that is there, and kernels that are built."""
    monkeypatch.setattr(prepare, "build_all", lambda *_, **__: [])
    monkeypatch.setattr(device, "missing", lambda: "")
    monkeypatch.setattr(device, "current", lambda: Chip(works=True))
    monkeypatch.setattr(results, "environment", lambda: {"gpu": "none"})


@needs_nvrtc
def test_everything_is_built_without_a_gpu(capsys):
    assert run.main(["--parts", "grid", "--build", "--workers", "1"]) == 0
    told = capsys.readouterr().err
    assert told.startswith(f"[1/1] {CASE.name}: dense")
    assert "MiB of machine code" in told
    place = prepare.kernels([CASE])[0].place("cuda:sm_90")
    assert [path.name for path in place.iterdir()] == ["code"]


def test_without_a_gpu_nothing_is_measured(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(prepare, "build_all", lambda *_, **__: [])
    monkeypatch.setattr(device, "missing", lambda: "no GPU here")
    assert run.main(["--parts", "grid"]) == 2
    assert "built, but not measured: no GPU here" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))


def measured(monkeypatch, behaviour):
    """Let ``behaviour(name)`` stand for measuring a case; return the names that were tried."""
    seen = []

    def measure(case, kernels, target, timer, tune_libraries):
        seen.append(case.name)
        behaviour(case.name)
        return {"case": case.name, "times": {}}

    monkeypatch.setattr("benchmarks.gpu.layers.measure", measure)
    return seen


def test_it_continues_where_it_ended(monkeypatch, tmp_path, pretended):
    now = [0.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])

    def take_half_a_minute(name):
        now[0] += 30

    seen = measured(monkeypatch, take_half_a_minute)
    cases = [CASE, Case("other", CASE.contraction, "none", 0.0)]
    monkeypatch.setitem(jobs.LAYERS, "grid", lambda: cases)
    assert run.main(["--parts", "grid", "--minutes", "0.4"]) == 3
    assert run.main(["--parts", "grid", "--minutes", "0.4"]) == 0
    assert seen == [case.name for case in cases]
    rows = json.loads((tmp_path / "gpu_grid.json").read_text())["rows"]
    assert [row["case"] for row in rows] == seen


def test_a_wrong_output_is_one_case(monkeypatch, capsys, tmp_path, pretended):
    other = Case("other", CASE.contraction, "none", 0.0)
    monkeypatch.setitem(jobs.LAYERS, "grid", lambda: [CASE, other])
    wrong = [CASE.name]

    def fail(name):
        if name in wrong:
            raise ArithmeticError("3 times the allowed error")

    measured(monkeypatch, fail)
    monkeypatch.setattr(metrics.shutil, "which", lambda name: None)
    assert run.main(["--parts", "grid", "metrics"]) == 1
    told = capsys.readouterr().err
    assert "metrics: FileNotFoundError: ncu (NVIDIA Nsight Compute) is not installed" in told
    content = json.loads((tmp_path / "gpu_grid.json").read_text())
    assert [row["case"] for row in content["rows"]] == [other.name]
    assert content["failed"] == {CASE.name: "ArithmeticError: 3 times the allowed error"}
    wrong.clear()
    assert run.main(["--parts", "grid"]) == 0
    assert "failed" not in json.loads((tmp_path / "gpu_grid.json").read_text())


def test_a_broken_process_is_replaced(monkeypatch, pretended):
    """After a wild access no call to CUDA succeeds any more."""

    class Replaced(BaseException):
        pass

    def crash(name):
        raise RuntimeError("an illegal memory access was encountered")

    def replace(program, command):
        raise Replaced(command)

    measured(monkeypatch, crash)
    monkeypatch.setattr(device, "current", lambda: Chip(works=False))
    monkeypatch.setattr(run.os, "execv", replace)
    with pytest.raises(Replaced) as replaced:
        run.main(["--parts", "grid", *CHOSEN, "--skip", "x"])
    (command,) = replaced.value.args
    assert command[1:3] == ["-m", "benchmarks.gpu"]
    options = run._options(command[3:])
    assert (options.parts, options.repeats, options.tune_libraries) == (["grid"], 7, False)
    assert options.flush == "dirty"
    assert options.skip == ["x", CASE.name]
    assert options.minutes == pytest.approx(9.5, abs=0.1)


def test_skipped_cases_count_as_failed(monkeypatch, pretended):
    seen = measured(monkeypatch, lambda name: None)
    assert run.main(["--parts", "grid", "--skip", CASE.name]) == 1
    assert not seen


def test_contaminated_cases_are_measured_again(monkeypatch, tmp_path, pretended):
    old = {"case": CASE.name, "times": {}, "contaminated": {"cublas": "the host's"}}
    (tmp_path / "gpu_grid.json").write_text(json.dumps({"rows": [old]}))
    seen = measured(monkeypatch, lambda name: None)
    assert run.main(["--parts", "grid"]) == 0
    assert seen == [CASE.name]
    (row,) = json.loads((tmp_path / "gpu_grid.json").read_text())["rows"]
    assert "contaminated" not in row
