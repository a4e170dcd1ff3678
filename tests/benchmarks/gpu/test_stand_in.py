"""The queue under the driver that executes PTX: kernels, peers, graphs, files, all really run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch.export import Dim

import tvm_sparse as ts
from benchmarks.gpu import prepare
from benchmarks.gpu.queue import again, flushes, open_extents, sanity
from benchmarks.gpu.queue.step import Plan
from benchmarks.gpu.queue.store import read
from tests.cuda.kernels import needs_nvrtc

ROOT = Path(__file__).resolve().parents[3]
SMALL = Plan(small=True)


def run(place, *arguments, whole=False):
    """Run the queue on the stand-in in ``place``; what is built before is there."""
    from tvm_sparse_emulator import stand_in

    entered = {**stand_in.environment(log=os.devnull), "GPU_BENCHMARK_STAND_IN": "1"}
    environment = {**os.environ, **({} if whole else entered)}
    environment |= {"GPU_BENCHMARK_BUILT": str(place / "built"), "PYTHON": sys.executable}
    command = ["benchmarks/gpu/run.sh", "--queue", "--stand-in", "--workers", "2"]
    command += ["--out", str(place / "out"), *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    lines = {(line["step"], line["piece"]): line for line in read(place / "out" / "queue.jsonl")}
    return done, lines


@needs_nvrtc
def test_kernels_run_and_what_fails_costs_itself_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "BUILT", tmp_path / "built")
    crashing = sanity.kernels(SMALL)[0]
    for kernel in [*flushes.kernels(SMALL), *again.kernels(SMALL), crashing]:
        prepare.build(kernel, SMALL.target, kernel.place(SMALL.target), ptx=True)
    library = crashing.place(SMALL.target) / "ptx" / "kernel.so"
    library.write_bytes(library.read_bytes()[:1000])
    done, lines = run(tmp_path, "--steps", "sanity", "flush", "again", "--minutes", "9")
    assert done.returncode == 1, done.stderr
    failed = [line["failed"] for line in lines.values() if "failed" in line]
    assert failed[0] == "the process ended in it"
    assert all("not built before" in why for why in failed[1:])
    assert {step for (step, _), line in lines.items() if "failed" in line} == {"sanity"}
    (row,) = lines["flush", "flush clean"]["rows"]
    ours = {name: taken for name, taken in row["times"].items() if name.startswith("ours")}
    assert len(ours) == 3
    assert {taken["how"] for taken in ours.values()} == {"graph"}
    assert row["times"]["library dense"]["not_captured"].endswith("does not write its output")
    (row,) = next(line["rows"] for (step, _), line in lines.items() if step == "again")
    assert row["errors"]["block"] <= 1
    assert "No module named 'triton'" in row["missing"]["triton bsr tuned"]
    text = (tmp_path / "out" / "summary.txt").read_text()
    assert "small layers on a CPU" in text
    assert f"1 done, {len(failed)} failed" in text
    # A second call does only what failed, and stops where no time is left.
    done, after = run(tmp_path, "--steps", "sanity", "flush", "--minutes", "0.1")
    log = (tmp_path / "out" / "log.txt").read_text()
    assert "signal 7 ended the process: on in a fresh one" in log
    assert done.returncode == 3, done.stderr
    assert after == lines
    assert "time over" in (tmp_path / "out" / "summary.txt").read_text()


@needs_nvrtc
@pytest.mark.slow
def test_the_whole_queue(tmp_path):
    done, lines = run(tmp_path, "--minutes", "20", whole=True)
    assert done.returncode == 0, done.stderr
    steps = {"sanity", "flush", "library", "again", "networks", "schedules", "cpu"}
    assert {step for step, _ in lines} >= steps  # and those mends that there are
    assert not [line["failed"] for line in lines.values() if "failed" in line]
    summary = (tmp_path / "out" / "summary.txt").read_text().splitlines()
    assert len(summary) <= 20
    assert "profiler (0.0 of 4 min): 8 ncu (NVIDIA Nsight Compute) is not installed" in summary
    assert "hopper (0.0 of 3 min): 1 needs a GPU of compute capability 9.0" in summary
    files = [path for path in (tmp_path / "out").iterdir() if path.is_file()]
    assert len(files) <= 8
    assert max(path.stat().st_size for path in files) < 16 << 20
    json.loads((tmp_path / "out" / "queue.jsonl").read_text().splitlines()[0])


@needs_nvrtc
def test_artifacts_of_open_extents_are_called_at_each_size(tmp_path):
    done, lines = run(tmp_path, "--steps", "open", "--minutes", "9", whole=True)
    assert done.returncode == 0, done.stderr
    names = ("open layers", "open 2:4", "open attention", "open bytes")
    layers, quads, attention, scores = (lines["open", name]["rows"] for name in names)
    assert [row["size"] for row in layers] == [[5], [300]]
    assert [row["size"] for row in attention] == [row["size"] for row in scores]
    assert [row["size"] for row in scores] == [[2, 5], [1, 37]]
    assert all(row["times"].keys() == {"torch eager", "ours", "cublaslt"} for row in layers)
    assert any("cuBLASLt" in told for row in layers for told in row["libraries"])
    assert [row["size"] for row in quads] == [[5], [37]]
    assert all(row["times"].keys() == {"torch eager", "ours", "cusparselt"} for row in quads)


@needs_nvrtc
def test_open_2_4_layers_of_the_queue_are_a_librarys():
    (quads,) = (one for one in open_extents.networks(Plan()) if one.name == "open 2:4")
    dims = ({0: Dim("rows", max=1 << 16)},)
    (x,) = quads.examples((4099,))
    library = ts.compile(
        quads.make(),
        (x,),
        dynamic_shapes=dims,
        target="cuda:sm_90",
        config=quads.levels["cusparselt"],
    )
    assert {d.chosen for d in library.decisions} == {"cusparselt"}


@needs_nvrtc
def test_convolutions_of_a_library_are_timed_beside_ours(tmp_path):
    done, lines = run(tmp_path, "--steps", "convolutions", "--minutes", "9", whole=True)
    assert done.returncode == 0, done.stderr
    (row,) = next(iter(lines.values()))["rows"]
    assert row["times"].keys() == {*("ours dense", "ours features first"), *row["libraries_dense"]}
    assert row["libraries_dense"] == ["cudnn nchw", "cudnn nhwc"]
    assert row["errors"]["features first"] <= 1
