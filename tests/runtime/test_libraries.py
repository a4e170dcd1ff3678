"""Which cuBLASLt is found, and what is said of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import environment
from tvm_sparse_emulator.stand_in import CUBLASLT
from tvm_sparse_runtime import libraries
from tvm_sparse_runtime.libraries import Found

PROGRAM = """
import sys
from tvm_sparse_runtime import gpu, libraries
gpu.require(["sm_90"], "the stand-in")
sys.path[:0] = sys.argv[1:]
print(libraries.cublaslt())
"""


def found(*places, **variables):
    """Return the line of a process that has the emulated driver."""
    own = {**os.environ, **environment(parse_target("cuda:sm_90").target), **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, places)],
        env={name: value for name, value in own.items() if value},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_the_file_that_is_named():
    assert found().startswith("cuBLASLt: 130000 (/")


def test_what_the_loader_finds():
    assert CUBLASLT in found(TVM_SPARSE_CUBLASLT="")


def test_a_wheel_comes_before_what_the_loader_finds(tmp_path):
    place = Path(environment(parse_target("cuda:sm_90").target)["TVM_SPARSE_CUBLASLT"])
    wheel = tmp_path / "nvidia" / "cublas" / "lib"
    wheel.mkdir(parents=True)
    shutil.copy(place, wheel)
    assert f"({wheel}/" in found(tmp_path, TVM_SPARSE_CUBLASLT="")


def test_a_broken_file(tmp_path):
    broken = tmp_path / CUBLASLT
    broken.write_bytes(b"no library")
    line = found(TVM_SPARSE_CUBLASLT=str(broken))
    assert line.startswith("cuBLASLt: cannot be loaded (") and str(broken) in line
    assert line.endswith("; our own kernels run")


def test_a_library_without_its_functions(tmp_path):
    other = tmp_path / CUBLASLT
    place = Path(environment(parse_target("cuda:sm_90").target)["TVM_SPARSE_CUBLASLT"]).parent
    shutil.copy(place / "libcudart.so.13", other)
    line = found(TVM_SPARSE_CUBLASLT=str(other))
    assert line == "cuBLASLt: has no function cublasLtGetVersion; our own kernels run"


@pytest.mark.grid
@pytest.mark.parametrize(
    ("how", "why"),
    [("old", "too old (110800 in "), ("start", "does not start (CUBLAS_STATUS_NOT_INITIALIZED)")],
)
def test_a_library_that_cannot_be_used(how, why):
    assert f"cuBLASLt: {why}" in found(FAKE_CUBLASLT=how)


def test_it_can_be_turned_off():
    line = found(TVM_SPARSE_CUBLASLT="off")
    assert line == "cuBLASLt: turned off by TVM_SPARSE_CUBLASLT; our own kernels run"


def test_artifacts_say_what_their_layers_ask(monkeypatch, caplog):
    monkeypatch.setattr(libraries, "cublaslt", lambda: Found("", "", "not found"))
    assert libraries.used([{"chosen": "dense"}]) == ()
    assert not caplog.records
    (line,) = libraries.used([{"chosen": "dense"}, {"chosen": "cublaslt"}])
    assert line == "cuBLASLt: not found; our own kernels run (1 of 2 layers ask it)"
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_what_is_meant_to_be_so_is_no_warning(monkeypatch, caplog):
    monkeypatch.setattr(libraries, "cublaslt", lambda: Found("", "", "turned off"))
    monkeypatch.setenv("TVM_SPARSE_CUBLASLT", "off")
    assert libraries.used([{"chosen": "cublaslt"}])
    assert not caplog.records
