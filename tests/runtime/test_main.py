import json
import subprocess
import sys

import numpy as np
import pytest

import tvm_sparse_runtime as rt
from tests.artifact.programs import linear_reference
from tvm_sparse_runtime.__main__ import main

X = np.ones((3, 64), "float32")


@pytest.fixture
def npy(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return str(tmp_path / "x.npy")


def test_describe(linear_artifact, capsys):
    assert main([str(linear_artifact)]) == 0
    assert "input  x: float32[batch, 64]\n  output y: float32[batch, 32]" in capsys.readouterr().out


def test_run_and_time(linear_artifact, npy, tmp_path, capsys):
    outputs = [str(tmp_path / name) for name in ("y.npy", "z.npy")]
    flags = ["--input", npy, "--output", outputs[0], "--output", outputs[1], "--repeat", "5"]
    assert main([str(linear_artifact), *flags, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["runs"] == 5
    assert 0 < record["median_ms"] <= record["p99_ms"]
    assert record["inputs"] == [{"name": "x", "shape": ["batch", 64], "dtype": "float32"}]
    np.testing.assert_allclose(np.load(outputs[1]), linear_reference(X)[1], atol=1e-3)
    assert main([str(linear_artifact), *flags]) == 0
    assert "5 runs after warm-up" in capsys.readouterr().out


def test_runs_side_by_side(linear_artifact, npy, capsys):
    flags = ["--input", npy, "--repeat", "3", "--sessions", "2", "--threads", "1"]
    assert main([str(linear_artifact), *flags, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["sessions"], record["threads_each"]) == (2, 1)
    assert record["runs_a_second"] > 0
    assert main([str(linear_artifact), *flags]) == 0
    assert "2 runs side by side, 1 threads each: " in capsys.readouterr().out
    assert_refused(capsys, [linear_artifact, "--input", npy, "--sessions", "0"], "--sessions: 0")


def test_as_a_module(linear_artifact):
    done = subprocess.run(
        [sys.executable, "-m", "tvm_sparse_runtime", str(linear_artifact), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["outputs"][0]["name"] == "y"
    assert done.stderr == ""


def assert_refused(capsys, arguments, message):
    assert main([str(a) for a in arguments]) == 1
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ")
    assert captured.out == ""


def test_refusals(linear_artifact, npy, tmp_path, capsys):
    assert_refused(capsys, [tmp_path / "none"], "no such directory")
    assert_refused(capsys, [linear_artifact, "--input", tmp_path / "none.npy"], "no such file")
    assert_refused(
        capsys, [linear_artifact, "--input", npy, "--output", "y.npy"], "1 names; expected 2"
    )
    assert_refused(capsys, [linear_artifact, "--input", npy, "--input", npy], "2 tensors")
    assert_refused(capsys, [linear_artifact, "--output", "y.npy"], "without --input")
    assert_refused(capsys, [linear_artifact, "--input", npy, "--repeat", "0"], "--repeat")
    (tmp_path / "no.npy").write_text("text")
    assert_refused(capsys, [linear_artifact, "--input", tmp_path / "no.npy"], "cannot be read")
    np.save(tmp_path / "objects.npy", np.array([{}], object), allow_pickle=True)
    assert_refused(capsys, [linear_artifact, "--input", tmp_path / "objects.npy"], "cannot be read")
    np.savez(tmp_path / "many.npz", X)
    assert_refused(capsys, [linear_artifact, "--input", tmp_path / "many.npz"], "several arrays")
    missing = tmp_path / "none" / "y.npy"
    flags = ["--input", npy, "--output", missing, "--output", missing]
    assert_refused(capsys, [linear_artifact, *flags], "cannot be written")


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"tvm-sparse-runtime {rt.__version__}\n"


def test_wrong_usage():
    with pytest.raises(SystemExit, match="2"):
        main([])
