"""``tvm-sparse tune``: tuning, and looking after the records."""

from __future__ import annotations

import json

import pytest
import torch

from tests.tuning.networks import mlp, tasks
from tests.tuning.test_recorded import X, network
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.record import record_of


@pytest.mark.slow
def test_the_command_tunes_and_logs(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.export.save(torch.export.export(network(0), (X,)), tmp_path / "model.pt2")
    options = ("--trials", 3, "-d", "records", "--report", "page.html", "--json")
    done = call("tune", "model.pt2", *options)
    assert json.loads(done.stdout)["trials"] == 3
    assert "confirming" in done.stderr or "searching" in done.stderr
    assert (tmp_path / "records" / "records.jsonl").exists()
    assert "<polyline" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_command_merges_lists_and_exports(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = tasks(*mlp())[0]
    times = {"seconds": 1e-6, "default_seconds": 2e-6, "confirmed": True}
    best = record_of(task.workload, task.space, task.space.default, **times)
    Database(tmp_path / "theirs").add([best])
    done = call(*("tune", "--merge", "theirs", "-d", "ours", "--best", "--export", "best.jsonl"))
    assert "2.00" in done.stdout
    assert list(Database(tmp_path / "ours")) == list(Database(tmp_path / "best.jsonl")) == [best]


@pytest.mark.parametrize(
    ("arguments", "status"), [((), 2), (("--merge", "none"), 1), (("--trials", "0"), 2)]
)
def test_wrong_usage(call, tmp_path, monkeypatch, arguments, status):
    monkeypatch.chdir(tmp_path)
    assert "Traceback" not in call("tune", *arguments, status=status).stderr


def test_the_old_name_of_an_option_says_the_new_one(call, pt2, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("tvm_sparse.cli.tune._tune", lambda *given: asked.append(given[-1]))
    monkeypatch.setattr("tvm_sparse.cli.tune._show", lambda *_: {})
    monkeypatch.setattr("tvm_sparse.cli.tune.load_model", lambda *_, **__: None)
    call("tune", pt2, "-d", tmp_path / "records", "--formats")
    done = call("tune", pt2, "-d", tmp_path / "records", "--storages")
    assert asked[0] == asked[1] and asked[1]["formats"]
    assert "--formats" in done.stderr
