"""Distributions of one release: the runtime and the emulator, which need little, the compiler."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tvm_sparse_runtime
from tests.artifact.programs import linear_artifact
from tests.runtime.fresh import run
from tvm_sparse_runtime.version import TVM

__all__ = ["linear_artifact"]
ROOT = Path(__file__).resolve().parent.parent

FIRST_CALL = """
import time
begin = time.perf_counter()
import numpy as np
import tvm_sparse_runtime as rt
library = rt.load({path!r})
library(np.zeros({shape}, "float32"))
seconds = time.perf_counter() - begin
import json, pathlib, sys
heavy = {{"torch", "tvm", "xgboost", "sklearn", "jinja2", "scipy"}} & sys.modules.keys()
status = pathlib.Path("/proc/self/status").read_text()
memory = int(status.partition("VmHWM:")[2].split()[0]) / 1024
print(json.dumps({{"seconds": seconds, "megabytes": memory, "heavy": sorted(heavy)}}))
"""


def required(distribution: str) -> set[str]:
    """Return the names that a plain installation brings directly."""
    found = importlib.metadata.requires(distribution) or []
    plain = [line for line in found if "extra ==" not in line]
    return {re.match(r"[\w-]+", line)[0] for line in plain}


def test_the_runtime_needs_only_numpy_and_the_interface_of_tvm():
    assert required("tvm-sparse-runtime") == {"apache-tvm-ffi", "numpy"}


def test_the_emulator_needs_only_numpy():
    assert required("tvm-sparse-emulator") == {"numpy"}


def test_one_release_of_tvm_is_named_everywhere():
    line = f"apache-tvm=={TVM}"
    assert line in importlib.metadata.requires("tvm-sparse")
    assert f'build.requires = ["{line}"]' in (ROOT / "python" / "pyproject.toml").read_text("utf-8")


def test_the_compiler_brings_its_own_runtime_and_nothing_for_extras():
    versions = {importlib.metadata.version(name) for name in ("tvm-sparse", "tvm-sparse-runtime")}
    assert versions == {tvm_sparse_runtime.__version__}
    line = f"tvm-sparse-runtime=={tvm_sparse_runtime.__version__}"
    assert line in importlib.metadata.requires("tvm-sparse")
    extra = {"scikit-learn", "jinja2", "xgboost-cpu", "cloudpickle", "tornado", "psutil"}
    assert not required("tvm-sparse") & extra


def test_the_first_call_takes_little(linear_artifact):
    done = run(FIRST_CALL.format(path=str(linear_artifact), shape=(2, 64)))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["heavy"] == []
    assert found["megabytes"] < 100


@pytest.mark.slow
def test_a_fresh_environment_with_the_runtime_alone(tmp_path, linear_artifact):
    """Every dependency comes from the package index."""
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", python.parents[1]], check=True)
    install = [python, "-m", "pip", "install", "--quiet", ROOT / "python"]
    subprocess.run(install, check=True)
    listed = subprocess.run(
        [python, "-m", "pip", "list", "--format", "json"], capture_output=True, check=True
    )
    names = {row["name"].replace("_", "-") for row in json.loads(listed.stdout)}
    brought = {"tvm-sparse-runtime", "apache-tvm-ffi", "numpy"}
    assert brought <= names
    assert names - brought <= {"pip", "setuptools", "ml-dtypes", "typing-extensions"}
    code = FIRST_CALL.format(path=str(linear_artifact), shape=(2, 64))
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["heavy"] == []
    assert found["megabytes"] < 100
