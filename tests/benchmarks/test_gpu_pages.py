import json
from pathlib import Path

import pytest

from benchmarks.gpu.operators import HOPPER, OPERATORS
from benchmarks.harness import common
from benchmarks.pages import gpu_pages

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {"gpu": "NVIDIA H200", "date": "2026-12-01"}


def compiled(stack=0):
    row = {"dtype": "float16", "arch": "sm_90", "rule": "R", "registers": 40, "stack": stack}
    rows = [{"layer": name, **row, "instructions": {"HMMA": 8}} for name in OPERATORS]
    return {"date": "2026-11-20", "archs": ["sm_80", "sm_90"], "rows": rows}


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(common, "RESULTS", tmp_path)
    return tmp_path


def test_every_operator_is_named_with_what_is_proved(results):
    text = gpu_pages.page(compiled())
    for layer, operator in OPERATORS.items():
        (line,) = (x for x in text.splitlines() if x.startswith(f"| {layer} | {operator.kernel} "))
        assert "sm_80, sm_90, [2026-11-20](../../benchmarks/results/gpu_compiled.json)" in line
        assert line.endswith("| not yet | not yet |")
    assert "No kernel was measured on a GPU yet" in text


def test_spills_are_not_called_proved(results):
    assert "sm_80, sm_90, [2026-11-20]" not in gpu_pages.page(compiled(stack=8))


def test_measured_operators(results):
    kernels = {"balanced": {"kernel": "stream"}}
    times = {"ours balanced": {"median_us": 4.0}, "cublas": {"median_us": 10.0}}
    about = {"rows": 1, "pattern": "balanced", "sparsity": 0.75, "environment": ENVIRONMENT}
    row = {"case": "c", "kernels": kernels, "times": times} | about
    for part in ("correct", "grid"):
        (results / f"gpu_{part}.json").write_text(json.dumps({"rows": [row]}))
    text = gpu_pages.page(compiled())
    assert "No kernel was measured" not in text
    lines = [x for x in text.splitlines() if x.startswith("| balanced, N = 1 ")]
    where = "[2026-12-01](../../benchmarks/results/gpu_correct.json)"
    assert lines[0].endswith(f"| NVIDIA H200, {where} |")
    text = gpu_pages.rows_page(compiled(), None)
    assert "| c | ours balanced 4.0 | cublas 10.0 | 2.50x |" in text


def test_executed_operators(results):
    right = {"error": 0.0, "findings": []}
    rows = [
        {"layer": "dense", "dtype": "float32", **right},
        {"layer": "dense", "dtype": "float16", **right},
        {"layer": "block", "dtype": "float32", "error": 2.0, "findings": ["a race"]},
    ]
    content = {"environment": {"date": "2026-12-02"}, "rows": rows}
    (results / "gpu_executed.json").write_text(json.dumps(content))
    lines = gpu_pages.page(compiled()).splitlines()
    where = "[2026-12-02](../../benchmarks/results/gpu_executed.json)"
    (line,) = (x for x in lines if x.startswith("| dense | tile "))
    assert f"| equal in 2 of 2 dtypes, {where} | sound |" in line
    (line,) = (x for x in lines if x.startswith("| block | tile "))
    assert f"| equal in 0 of 1 dtypes, {where} | 1 findings |" in line


def test_failed_cases_are_counted(results):
    content = {"rows": [], "failed": {"c": "ArithmeticError: 3 times the allowed error"}}
    (results / "gpu_grid.json").write_text(json.dumps(content))
    text = gpu_pages.rows_page(compiled(), None)
    assert "| `grid` | 8192 x 8192 over sparsity and rows | 1 failed | `gpu_grid.json` |" in text


def test_tuned_operators(results):
    found = {"default_us": 8.0, "best_us": 4.0, "ratio": 0.5, "trials": 64}
    kept = {"default_us": 9.0, "best_us": None, "ratio": 1.0, "trials": 64}
    rows = [
        {"case": "a", **found, "environment": ENVIRONMENT},
        {"case": "b", **kept, "environment": ENVIRONMENT},
    ]
    (results / "gpu_tune.json").write_text(json.dumps({"rows": rows}))
    text = gpu_pages.rows_page(compiled(), None)
    assert "| a | 8.0 | 4.0 | 2.00x | 64 |" in text
    assert "| b | 9.0 |  | 1.00x | 64 |" in text


def test_the_pages_are_up_to_date(tmp_path):
    """What the repository shows is what its results say, for every operator there is."""
    content = json.loads((ROOT / "benchmarks/results/gpu_compiled.json").read_text())
    every = (OPERATORS | HOPPER).keys()
    assert {row["layer"] for row in content["rows"]} == every
    executed = json.loads((ROOT / "benchmarks/results/gpu_executed.json").read_text())
    assert {row["layer"] for row in executed["rows"]} == every
    gpu_pages.write(tmp_path)
    for name in ("gpu.md", "gpu_rows.md"):
        assert (ROOT / "docs/performance" / name).read_text() == (tmp_path / name).read_text()
