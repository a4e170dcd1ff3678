"""The files of a release: sources, and wheels that old systems and other machines can install.

``TVM_SPARSE_WHEELS`` names a folder that ``tools/wheels.py`` has filled; it takes ten minutes.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PathDistribution, distribution
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.utils import parse_sdist_filename, parse_wheel_filename
from torch import nn

import tvm_sparse as ts
from benchmarks import runtime_size
from benchmarks.harness import common
from tests import declared
from tests.artifact.programs import linear_artifact
from tvm_sparse_runtime import __version__

__all__ = ["linear_artifact"]
pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parent.parent
NAMES = ["tvm-sparse", "tvm-sparse-emulator", "tvm-sparse-runtime"]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """What ``tools/wheels.py`` builds, or has built."""
    if built := os.environ.get("TVM_SPARSE_WHEELS"):
        return Path(built)
    for package in ("auditwheel", "build", "ziglang"):
        pytest.importorskip(package)
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, ROOT / "tools" / "wheels.py", folder], check=True)
    return folder


def wheel(files: Path, name: str) -> Path:
    """Return the wheel of a distribution for this machine."""
    (found,) = files.glob(f"{name.replace('-', '_')}-*{platform.machine()}.whl")
    return found


def platforms(file: Path) -> Iterator[tuple[int, str]]:
    """Give the minor version of glibc and the machine of each tag of a wheel."""
    for tag in parse_wheel_filename(file.name)[3]:
        assert (tag.interpreter, tag.abi) == ("py3", "none")
        if tag.platform.startswith("manylinux_2_"):
            minor, machine = tag.platform.removeprefix("manylinux_2_").split("_", 1)
            yield int(minor), machine


@pytest.mark.timeout(1800)
def test_a_release_has_sources_and_wheels_for_two_machines(files):
    sources = [parse_sdist_filename(file.name) for file in files.glob("*.tar.gz")]
    assert sorted((name, str(version)) for name, version in sources) == [
        (name, __version__) for name in NAMES
    ]
    wheels = {file: list(platforms(file)) for file in files.glob("*.whl")}
    assert sorted((file.name.split("-")[0], found[0][1]) for file, found in wheels.items()) == [
        (name.replace("-", "_"), machine) for name in NAMES for machine in ("aarch64", "x86_64")
    ]
    assert all(minor <= 28 for found in wheels.values() for minor, _ in found)


def program(files: Path, folder: Path) -> Path:
    """Unpack the runtime's wheel and return its program."""
    shutil.unpack_archive(wheel(files, "tvm-sparse-runtime"), folder, "zip")
    found = folder / "tvm_sparse_runtime" / "bin" / "tvm_sparse_run"
    found.chmod(0o755)
    return found


def test_the_wheels_program_runs_an_artifact(files, tmp_path):
    x = np.random.default_rng(0).random((2, 16), np.float32)
    library = ts.compile(nn.Linear(16, 8).eval(), (torch.from_numpy(x),))
    artifact = library.export(tmp_path / "a.tvms")
    np.save(tmp_path / "x.npy", x)
    places = [
        str(distribution(name).locate_file(f"{folder}/lib"))
        for name, folder in (("apache-tvm", "tvm"), ("apache-tvm-ffi", "tvm_ffi"))
    ]
    run = program(files, tmp_path)
    subprocess.run(
        [run, artifact, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy"],
        check=True,
        env=os.environ | {"LD_LIBRARY_PATH": os.pathsep.join(places)},
    )
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), library(torch.from_numpy(x)).numpy())


def test_the_runtime_alone_in_a_fresh_environment(files, linear_artifact, tmp_path):
    """What it brings comes from the package index, and is what the pages say."""
    found = runtime_size.measured(
        wheel(files, "tvm-sparse-runtime"), linear_artifact, tmp_path, processes=1
    )
    said = common.load(runtime_size.NAME)
    assert found["installed_mb"].keys() == said["installed_mb"].keys()
    assert found["wheel_mb"] == pytest.approx(said["wheel_mb"], rel=0.15)
    assert found["wheel_mb"] < 5
    assert runtime_size.ours(found) == pytest.approx(runtime_size.ours(said), rel=0.15)
    assert found["resident_mb"] < 100
    python = tmp_path / "venv" / "bin" / "python"
    done = subprocess.run(
        [python, "-c", REFUSED, linear_artifact], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["refused", "again"]), done.stderr


REFUSED = """
import resource, sys
import numpy as np
import tvm_sparse_runtime as runtime
library = runtime.load(sys.argv[1])
raw = np.ones(400_001 * 64, np.float32)
begin = -raw.ctypes.data % 64 // 4
large = raw[begin : begin + 400_000 * 64].reshape(-1, 64)  # aligned, so not copied
library(large[:2])
with open("/proc/self/statm") as sizes:
    taken = int(sizes.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 20), resource.RLIM_INFINITY))
try:
    library(large)
except runtime.SparseRuntimeError as error:
    print("refused" if "bytes refused" in str(error) else error)
library(large[:2])
print("again")
"""
"""An error of our allocator passes TVM, whose C++ library is another one than the wheel's."""


def test_the_wheels_have_every_module_and_ask_for_what_it_imports(files, tmp_path):
    """All wheels beside the distributions that their metadata names, and nothing else."""
    for name in NAMES:
        shutil.unpack_archive(wheel(files, name), tmp_path, "zip")
    metadata = [PathDistribution(folder) for folder in tmp_path.glob("*.dist-info")]
    assert len(metadata) == len(NAMES)
    asked = [text for own in metadata for text in own.requires or ()]
    others = [text for text in asked if not text.startswith(tuple(NAMES))]
    declared.link(declared.closure(others), tmp_path)
    extras = [text for text in others if "extra ==" in text]
    missing = declared.missing_modules(tmp_path)
    assert set(missing.values()) <= set(declared.modules_of(extras))
    done = declared.run(tmp_path, "-c", COMPILED)
    assert (done.returncode, done.stdout.strip()) == (0, "torch.Size([2, 8])"), done.stderr


COMPILED = """
import torch
import tvm_sparse as ts
x = torch.zeros(2, 16)
print(ts.compile(torch.nn.Linear(16, 8).eval(), (x,), config=ts.Config(cache=False))(x).shape)
"""
