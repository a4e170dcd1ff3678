"""A dense runtime that a signal ends does not take the benchmark along."""

from __future__ import annotations

import signal
import subprocess

import numpy as np

from benchmarks import crashes


def test_a_crash_is_told_by_its_signal(tmp_path, monkeypatch):
    real = subprocess.run

    def run(command, **options):
        """Let the runtime ``broken`` end as OpenVINO did, others with an error or well."""
        ends = {
            "broken": "import os; os.kill(os.getpid(), 11)",
            "fails": "raise ValueError",
            "well": "",
        }
        assert command[1:3] == ["-m", "benchmarks.crashes"]
        return real([command[0], "-c", ends[command[3]]], **options)

    monkeypatch.setattr(subprocess, "run", run)
    files = dict.fromkeys(("broken", "fails", "well"), tmp_path / "model.onnx")
    found = crashes.crashes(files, tmp_path / "x.npy", 1)
    assert found == {"broken": signal.SIGSEGV.name}


def test_a_runtime_is_opened_and_run_once_on_the_first_input(tmp_path, monkeypatch):
    called = []

    def opener(file, x, threads):
        return lambda: called.append((file.name, x.shape, threads))

    np.save(tmp_path / "x.npy", np.zeros((4, 2, 3)))
    monkeypatch.setattr("benchmarks.peers.model_runtimes.OPENERS", {"known": opener})
    crashes.main("known", str(tmp_path / "model.xml"), str(tmp_path / "x.npy"), "2")
    assert called == [("model.xml", (2, 3), 2)]
