"""``tvm-sparse tune``: tuning, and looking after the records."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch

from tests.tuning.networks import mlp, tasks
from tests.tuning.test_recorded import X, network
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.record import record_of

COMMAND = Path(sysconfig.get_path("scripts")) / "tvm-sparse"


def call(*arguments, cwd):
    return subprocess.run(
        [COMMAND, "tune", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
    )


@pytest.mark.slow
def test_the_command_tunes_and_logs(tmp_path):
    torch.export.save(torch.export.export(network(0), (X,)), tmp_path / "model.pt2")
    done = call("model.pt2", "--trials", 3, "-d", "records", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trials"] == 3
    assert "confirming" in done.stderr or "searching" in done.stderr
    assert (tmp_path / "records" / "records.jsonl").exists()


def test_the_command_merges_lists_and_exports(tmp_path):
    task = tasks(*mlp())[0]
    times = {"seconds": 1e-6, "default_seconds": 2e-6, "confirmed": True}
    best = record_of(task.workload, task.space, task.space.default, **times)
    Database(tmp_path / "theirs").add([best])
    done = call(
        *("--merge", "theirs", "-d", "ours", "--best", "--export", "best.jsonl"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "2.00" in done.stdout
    assert list(Database(tmp_path / "ours")) == list(Database(tmp_path / "best.jsonl")) == [best]


@pytest.mark.parametrize(
    ("arguments", "status"), [((), 2), (("--merge", "none"), 1), (("--trials", "0"), 2)]
)
def test_wrong_usage(tmp_path, arguments, status):
    done = call(*arguments, cwd=tmp_path)
    assert done.returncode == status
    assert "Traceback" not in done.stderr
