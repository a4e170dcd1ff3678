"""The module after each pass, in files that sort as the passes ran."""

from __future__ import annotations

import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.passes.canonical.simplify import Simplify
from tvm_sparse.passes.graph.dump import dumped

PHASES = ["1-canonicalise", "2-lower", "3-schedule", "4-finalise"]


def compiled(config):
    return ts.compile(nn.Linear(64, 32).eval(), (torch.zeros(2, 64),), config=config)


def test_each_pass_leaves_a_file(tmp_path):
    compiled(ts.Config(measure=False, dump=str(tmp_path)))
    assert sorted(p.name for p in tmp_path.iterdir()) == PHASES
    names = sorted(p.name for p in (tmp_path / "2-lower").iterdir())
    assert [int(name[:2]) for name in names] == list(range(1, len(names) + 1))
    before = (tmp_path / PHASES[0] / "01-BindWeights.py").read_text()
    (lowered,) = (tmp_path / "2-lower").glob("*-LowerContractions.py")
    assert "R.matmul" in before or "R.permute_dims" in before
    assert "linear_dense" not in before
    assert "linear_dense" in lowered.read_text()
    assert len(lowered.read_text()) < 50_000, "values of weights are left out"


def test_the_environment_names_the_directory(tmp_path, monkeypatch):
    monkeypatch.setenv("TVM_SPARSE_DUMP", str(tmp_path / "here"))
    compiled(ts.Config(measure=False))
    assert (tmp_path / "here" / PHASES[3]).is_dir()
    monkeypatch.delenv("TVM_SPARSE_DUMP")
    assert ts.Config().dump == ""


def test_nothing_is_added_without_a_directory():
    passes = [Simplify()]
    assert dumped(passes, "phase", "") == passes
