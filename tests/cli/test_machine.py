"""``tvm-sparse machine``."""

from __future__ import annotations

import json
from dataclasses import replace

from typer.testing import CliRunner

from tvm_sparse.cli.app import app
from tvm_sparse.machine.fitted import costs_of
from tvm_sparse.selection import fit

RUNNER = CliRunner()


def test_other_cpus_are_described_and_not_fitted():
    result = RUNNER.invoke(app, ["machine", "--target", "cpu:haswell"])
    assert result.exit_code == 0
    assert "AVX2, costs shipped for AVX2" in result.stdout
    assert "lookup: 2.40 (16)" in result.stdout
    result = RUNNER.invoke(app, ["machine", "--target", "cpu:i686", "--fit"])
    assert result.exit_code == 1


def test_fitted_costs_are_kept_and_shown(monkeypatch, tmp_path):
    def quick(target, told):
        told("nothing")
        return replace(costs_of(target), source="fitted for this test", block=3.25)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(fit, "fit", quick)
    result = RUNNER.invoke(app, ["machine", "--fit", "--json"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["costs"]["source"] == "fitted for this test"
    assert found["kept"].startswith(str(tmp_path))
    again = RUNNER.invoke(app, ["machine"])
    assert "fitted for this test" in again.stdout
    assert "block: 3.25" in again.stdout
