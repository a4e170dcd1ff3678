import json

import pytest

from benchmarks import common
from benchmarks.gpu import __main__ as run
from benchmarks.gpu import metrics, prepare
from benchmarks.gpu.cases import Case
from tests.cuda.kernels import needs_nvrtc
from tvm_sparse.ops.contraction import Contraction

CASE = Case("tiny", Contraction((1,), 64, 32, dtype="float16"), "none", 0.0)


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BUILT", tmp_path / "built")
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path)
    monkeypatch.setitem(run.LAYERS, "grid", lambda: [CASE])


@needs_nvrtc
def test_everything_is_built_without_a_gpu(capsys):
    assert run.main(["--parts", "grid", "--build", "--workers", "1"]) == 0
    assert capsys.readouterr().err.startswith(f"[1/1] {CASE.name}: dense")
    assert (prepare.kernels([CASE])[0].place("cuda:sm_90") / "kernel.so").exists()


def test_without_a_gpu_nothing_is_measured(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(run, "build_all", lambda *_: [])
    monkeypatch.setattr(run, "missing_gpu", lambda: "no GPU here")
    assert run.main(["--parts", "grid"]) == 2
    assert "built, but not measured: no GPU here" in capsys.readouterr().err
    assert not list(tmp_path.glob("*.json"))


def test_it_continues_where_it_ended(monkeypatch, tmp_path):
    seen = []

    def measure(case, kernels, target, repeats):
        seen.append(case.name)
        return {"case": case.name, "times": {}}

    cases = [CASE, Case("other", CASE.contraction, "none", 0.0)]
    monkeypatch.setitem(run.LAYERS, "grid", lambda: cases)
    monkeypatch.setattr(run, "build_all", lambda *_: [])
    monkeypatch.setattr(run, "missing_gpu", lambda: "")
    monkeypatch.setattr(run, "environment", lambda: {"gpu": "none"})
    monkeypatch.setattr("benchmarks.gpu.layers.measure", measure)
    assert run.main(["--parts", "grid", "--minutes", "0"]) == 3
    assert run.main(["--parts", "grid"]) == 0
    assert seen == [case.name for case in cases]
    rows = json.loads((tmp_path / "gpu_grid.json").read_text())["rows"]
    assert [row["case"] for row in rows] == seen


def test_a_wrong_output_ends_its_part_only(monkeypatch, capsys):
    def measure(case, kernels, target, repeats):
        raise ArithmeticError("3 times the allowed error")

    monkeypatch.setattr(run, "build_all", lambda *_: [])
    monkeypatch.setattr(run, "missing_gpu", lambda: "")
    monkeypatch.setattr("benchmarks.gpu.layers.measure", measure)
    monkeypatch.setattr(metrics.shutil, "which", lambda name: None)
    assert run.main(["--parts", "grid", "metrics"]) == 1
    told = capsys.readouterr().err
    assert "grid: 3 times the allowed error" in told
    assert "metrics: ncu (NVIDIA Nsight Compute) is not installed" in told
