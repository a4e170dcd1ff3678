"""The parts for C and C++ are where the configuration says, and build programs that run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tvm_sparse_runtime as rt
from tests.runtime import native
from tvm_sparse_runtime import config

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "cpp"
X = np.arange(128, dtype="float32").reshape(2, 64)


def run(*command, folder=None, **variables) -> subprocess.CompletedProcess:
    environment = {**native.environment(), **variables}
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, check=False
    )


def require(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


def test_every_part_is_there(capsys):
    config.main([])
    for line in capsys.readouterr().out.splitlines():
        assert Path(line).exists()
    config.main(["--includedir"])
    assert (Path(capsys.readouterr().out.strip()) / "tvm_sparse" / "runtime.h").is_file()


def test_the_program_describes_runs_and_writes(linear_artifact, tmp_path):
    np.save(tmp_path / "x.npy", X)
    files = ["--input", "x.npy", "--output", "y.npy", "--output", "z.npy", "--repeat", "3"]
    done = run(config.place("program"), linear_artifact, *files, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert b"input  x: float32[batch, 64]" in done.stdout
    assert re.search(rb"3 runs after warm-up: median [0-9.]+ ms", done.stdout)
    for name, wanted in zip("yz", rt.load(linear_artifact, threads=1)(X), strict=True):
        np.testing.assert_array_equal(np.load(tmp_path / f"{name}.npy"), wanted)


def test_the_program_says_what_is_wrong(linear_artifact, tmp_path):
    program = config.place("program")
    assert run(program).returncode == 2
    assert run(program, linear_artifact, "--repeat", "0").returncode == 2
    missing = run(program, tmp_path / "none.tvms")
    assert (missing.returncode, b"there is no such directory" in missing.stderr) == (1, True)
    np.save(tmp_path / "x.npy", X.astype("complex64"))
    complex_ = run(program, linear_artifact, "--input", tmp_path / "x.npy")
    assert (complex_.returncode, b"elements of the type <c8" in complex_.stderr) == (1, True)
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
    cut = run(program, linear_artifact, "--input", tmp_path / "x.npy")
    assert (cut.returncode, b"cut off" in cut.stderr) == (1, True)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The example, copied and built as its user would."""
    folder = tmp_path_factory.mktemp("example")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True)
    where = f"-Dtvm_sparse_runtime_DIR={config.place('cmakedir')}"
    for command in (["-B", "build", where], ["--build", "build"]):
        done = run(require("cmake"), *command, folder=folder)
        assert done.returncode == 0, done.stderr.decode()
    return folder / "build"


@pytest.mark.parametrize("program", ["run_from_c", "run_from_cpp"])
def test_the_example_gives_what_python_gives(built, linear_artifact, program):
    done = run(built / program, linear_artifact)
    assert done.returncode == 0, done.stderr
    wanted = rt.load(linear_artifact, threads=1)(X)[0]
    assert done.stdout == wanted.tobytes()


def test_pkg_config_builds_the_example_too(linear_artifact, tmp_path):
    search = os.fspath(config.place("pkgconfigdir"))
    asked = [require("pkg-config"), "--cflags", "--libs", "tvm_sparse_runtime"]
    flags = run(*asked, PKG_CONFIG_PATH=search).stdout.decode().split()
    compiler = [require("cc"), EXAMPLE / "run.c", *flags, "-o", tmp_path / "run"]
    done = run(*compiler)
    assert done.returncode == 0, done.stderr.decode()
    assert run(tmp_path / "run", linear_artifact).returncode == 0
