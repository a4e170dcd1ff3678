"""Which libraries of NVIDIA's are found, and what is said of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvm_sparse.base.targets import parse_target
from tvm_sparse.emulation.process import STAND_INS, environment
from tvm_sparse_runtime import libraries
from tvm_sparse_runtime.libraries import CUBLASLT, CUDNN, CUSPARSELT, LIBRARIES, Found

PROGRAM = """
import sys
from tvm_sparse_runtime import gpu, libraries
gpu.require(["sm_90"], "the stand-in")
chosen, *sys.path[:0] = sys.argv[1:]
print(libraries.found(chosen))
"""
OWN = environment(parse_target("cuda:sm_90").target)
each = pytest.mark.parametrize("chosen", LIBRARIES)
VERSIONS = {CUBLASLT: "130000", CUDNN: "92801", CUSPARSELT: "1000"}


def found(chosen, *places, **variables):
    """Return the line of a process that has the emulated driver."""
    own = {**os.environ, **OWN, **variables}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, chosen, *map(str, places)],
        env={name: value for name, value in own.items() if value},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@each
def test_the_file_that_is_named(chosen):
    assert found(chosen).startswith(f"{LIBRARIES[chosen].name}: {VERSIONS[chosen]} (/")


@each
def test_what_the_loader_finds(chosen):
    assert STAND_INS[chosen] in found(chosen, **{LIBRARIES[chosen].variable: ""})


@pytest.mark.grid
@pytest.mark.parametrize(
    ("chosen", "folder"), [(n, folder) for n, one in LIBRARIES.items() for folder in one.wheels]
)
def test_a_wheel_comes_before_what_the_loader_finds(chosen, folder, tmp_path):
    wheel = tmp_path / "nvidia" / folder
    wheel.mkdir(parents=True)
    shutil.copy(OWN[LIBRARIES[chosen].variable], wheel)
    assert f"({wheel}/" in found(chosen, tmp_path, **{LIBRARIES[chosen].variable: ""})


@each
def test_a_broken_file(chosen, tmp_path):
    broken = tmp_path / STAND_INS[chosen]
    broken.write_bytes(b"no library")
    line = found(chosen, **{LIBRARIES[chosen].variable: str(broken)})
    assert line.startswith(f"{LIBRARIES[chosen].name}: cannot be loaded (") and str(broken) in line
    assert line.endswith("; our own kernels run")


@pytest.mark.grid
@pytest.mark.parametrize(
    ("chosen", "function"),
    [
        (CUBLASLT, "cublasLtGetVersion"),
        (CUDNN, "cudnnGetVersion"),
        (CUSPARSELT, "cusparseLtGetProperty"),
    ],
)
def test_a_library_without_its_functions(chosen, function, tmp_path):
    other = tmp_path / STAND_INS[chosen]
    variable = LIBRARIES[chosen].variable
    shutil.copy(Path(OWN[variable]).parent / "libcudart.so.13", other)
    line = found(chosen, **{variable: str(other)})
    name = LIBRARIES[chosen].name
    assert line == f"{name}: has no function {function}; our own kernels run"


@pytest.mark.grid
@pytest.mark.parametrize(
    ("variable", "how", "why"),
    [
        ("FAKE_CUBLASLT", "old", "too old (110800 in "),
        ("FAKE_CUBLASLT", "start", "does not start (CUBLAS_STATUS_NOT_INITIALIZED)"),
        ("FAKE_CUDNN", "old", "too old (8907 in "),
        ("FAKE_CUDNN", "start", "does not start (CUDNN_STATUS_NOT_INITIALIZED)"),
        ("FAKE_CUSPARSELT", "old", "too old (600 in "),
        ("FAKE_CUSPARSELT", "start", "does not start (CUSPARSE_STATUS_NOT_INITIALIZED)"),
    ],
)
def test_a_library_that_cannot_be_used(variable, how, why):
    chosen = variable.removeprefix("FAKE_").lower()
    assert f"{LIBRARIES[chosen].name}: {why}" in found(chosen, **{variable: how})


@each
def test_it_can_be_turned_off(chosen):
    name, variable = LIBRARIES[chosen].name, LIBRARIES[chosen].variable
    line = found(chosen, **{variable: "off"})
    assert line == f"{name}: turned off by {variable}; our own kernels run"


def test_artifacts_say_what_their_layers_ask(monkeypatch, caplog):
    there = {CUBLASLT: Found("cuBLASLt", "", "", "not found"), CUDNN: Found("cuDNN", "x", "9", "")}
    monkeypatch.setattr(libraries, "found", there.__getitem__)
    assert libraries.used([{"chosen": "dense"}]) == ()
    assert not caplog.records
    lines = libraries.used([{"chosen": "dense"}, {"chosen": "cublaslt"}, {"chosen": "cudnn"}])
    assert lines == (
        "cuBLASLt: not found; our own kernels run (1 of 3 layers ask it)",
        "cuDNN: 9 (x) (1 of 3 layers ask it)",
    )
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@each
def test_what_is_meant_to_be_so_is_no_warning(chosen, monkeypatch, caplog):
    monkeypatch.setattr(libraries, "found", lambda _: Found("", "", "", "turned off"))
    monkeypatch.setenv(LIBRARIES[chosen].variable, "off")
    assert libraries.used([{"chosen": chosen}])
    assert not caplog.records
