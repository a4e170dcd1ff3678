"""The parts for C and C++ are where the configuration says, and build programs that run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tvm_sparse_runtime as rt
from tests.runtime import native
from tvm_sparse_runtime import config
from tvm_sparse_runtime.trace import trace

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


def test_the_program_traces_each_kernel(linear_artifact, tmp_path):
    np.save(tmp_path / "x.npy", X)
    files = ["--input", "x.npy", "--trace", "t.json"]
    done = run(config.place("program"), linear_artifact, *files, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    expected = trace(rt.load(linear_artifact, threads=1), [X])["traceEvents"]
    assert [(e["name"], e["cat"]) for e in events] == [(e["name"], e["cat"]) for e in expected]
    assert events[0]["ts"] == 0 and all(e["dur"] >= 0 for e in events)
    calls = [e for e in events if e["cat"] == "call"]
    ends = [e["ts"] + e["dur"] for e in calls]
    assert all(any(c["ts"] <= e["ts"] <= end for c, end in zip(calls, ends)) for e in events)


def test_a_trace_that_cannot_be_written_is_an_error(linear_artifact, tmp_path):
    np.save(tmp_path / "x.npy", X)
    files = ["--input", "x.npy", "--trace", "none/t.json"]
    done = run(config.place("program"), linear_artifact, *files, folder=tmp_path)
    assert done.returncode == 1
    assert b"error: none/t.json: cannot be written (No such file or directory)" in done.stderr


def test_the_program_says_what_is_wrong(linear_artifact, tmp_path):
    program = config.place("program")
    for words, why in (
        ([], "which artifact?"),
        ([linear_artifact, "--repeat", "0"], "--repeat takes a number, 1 or more, not '0'"),
        ([linear_artifact, "--threads"], "--threads needs a value"),
        ([linear_artifact, "--output", "y.npy"], "--output without --input"),
        ([linear_artifact, "--what"], "there is no option '--what'"),
        ([linear_artifact, linear_artifact], "one artifact, not"),
    ):
        done = run(program, *words)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {why}".encode()) and b"usage:" in done.stderr
    missing = run(program, tmp_path / "none.tvms")
    assert (missing.returncode, b"there is no such directory" in missing.stderr) == (1, True)
    np.save(tmp_path / "x.npy", X.astype("complex64"))
    complex_ = run(program, linear_artifact, "--input", tmp_path / "x.npy")
    assert (complex_.returncode, b"elements of the type <c8" in complex_.stderr) == (1, True)
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY\x01\x00\xff\xff")
    cut = run(program, linear_artifact, "--input", tmp_path / "x.npy")
    assert (cut.returncode, b"cut off" in cut.stderr) == (1, True)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    length = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data


def dictionary(shape: object, dtype: str = "<f4", order: bool = False) -> str:
    return str({"descr": dtype, "fortran_order": order, "shape": shape})


WHOLE = dictionary((2, 64))
REFUSED = {
    "wraps": (npy(dictionary((2**56 + 1, 64)), bytes(256)), b"more elements than any memory has"),
    "beyond 64 bits": (npy(dictionary((2**70, 64))), b"a header that NumPy does not write"),
    "negative": (npy(dictionary((-1, 64))), b"a header that NumPy does not write"),
    "claims much": (npy(dictionary((2**33, 64)), bytes(9)), b"cut off"),
    "more": (npy(WHOLE, bytes(513)), b"more bytes behind"),
    "letters": (npy("{'descr': '" + "a" * 60000 + "'"), b"a header that NumPy does not write"),
    "brackets": (npy("(" * 65000), b"a header that NumPy does not write"),
    "many axes": (npy(dictionary((1,) * 2000)), b"a header that NumPy does not write"),
    "long": (npy(WHOLE + " " * (1 << 21), version=2), b"a header of 2097"),
    "columns": (npy(dictionary((2, 64), order=True), bytes(512)), b"fortran_order"),
    "type": (
        npy(dictionary((2, 64), "CODE").replace("CODE", "<U\x1b[31m")),
        b"elements of the type <U?[31m",
    ),
    "version": (npy(WHOLE, version=9), b"version 9"),
    "archive": (b"PK\x03\x04" + bytes(99), b"no array"),
    "empty": (b"", b"cut off"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_the_program_refuses_damaged_arrays(linear_artifact, tmp_path, case):
    content, words = REFUSED[case]
    (tmp_path / "x.npy").write_bytes(content)
    done = run(config.place("program"), linear_artifact, "--input", tmp_path / "x.npy")
    assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    assert done.stderr.decode().isprintable() or done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("special", ["/dev/zero", "/dev/null", "/tmp", "/proc/self/mem"])
def test_the_program_reads_no_device_for_ever(linear_artifact, special):
    done = run(config.place("program"), linear_artifact, "--input", special)
    assert (done.returncode, done.stderr[:7]) == (1, b"error: ")


HEADERS = {
    "blanks": npy(WHOLE + " " * 60000, X.tobytes()),
    "other order": npy("{'shape':(2,64,),\"fortran_order\":False,'descr':'<f4'}", X.tobytes()),
    "version 2": npy(WHOLE, X.tobytes(), version=2),
    "version 3": npy(WHOLE, X.tobytes(), version=3),
}


@pytest.mark.parametrize("case", HEADERS)
def test_the_program_reads_what_numpy_reads(linear_artifact, tmp_path, case):
    (tmp_path / "x.npy").write_bytes(HEADERS[case])
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy", max_header_size=10**6), X)
    files = ["--input", "x.npy", "--output", "y.npy", "--output", "z.npy"]
    done = run(config.place("program"), linear_artifact, *files, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    wanted = rt.load(linear_artifact, threads=1)(X)[0]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), wanted)


@pytest.mark.parametrize("count", ["abc", "0", "-3", "2x", "99999"])
def test_the_program_takes_a_number_of_threads(linear_artifact, count):
    done = run(config.place("program"), linear_artifact, TVM_NUM_THREADS=count)
    assert (done.returncode, b"TVM_NUM_THREADS: '" in done.stderr) == (1, True)


def test_asking_for_a_place_warns_of_nothing():
    done = run(sys.executable, "-m", "tvm_sparse_runtime.config", "--libdir")
    assert (done.returncode, done.stderr) == (0, b"")


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
