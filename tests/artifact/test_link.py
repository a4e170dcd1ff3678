"""Libraries for this machine, and for aarch64 from here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tvm_sparse.artifact.link import compiler_for
from tvm_sparse.errors import ArtifactError
from tvm_sparse_runtime import RuntimeArtifactError, load
from tvm_sparse_runtime.manifest import FILE_NAME

ROOT = Path(__file__).resolve().parents[2]
CROSS = "aarch64-linux-gnu-g++"
SYSTEM = "/usr/aarch64-linux-gnu"
X = np.random.default_rng(0).random((2, 16, 8, 8), np.float32)


def test_without_a_cross_compiler(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(ArtifactError, match="package g\\+\\+-aarch64-linux-gnu") as caught:
        compiler_for("aarch64")
    assert caught.value.where == CROSS


def model():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(2048, 10)
    )
    return network.eval()


@pytest.fixture(scope="module")
def cross_artifact(tmp_path_factory):
    if shutil.which(CROSS) is None:
        pytest.skip(f"{CROSS} is not installed")
    library = ts.compile(model(), (torch.from_numpy(X),), target="aarch64")
    return library.export(tmp_path_factory.mktemp("cross") / "a.tvms")


def test_the_manifest_says_aarch64(cross_artifact):
    target = json.loads((cross_artifact / FILE_NAME).read_bytes())["target"]
    assert (target["machine"], target["cpu_features"]) == ("aarch64", ["asimd"])


@pytest.mark.skipif(os.uname().machine == "aarch64", reason="it runs here")
def test_another_machine_refuses_it(cross_artifact):
    with pytest.raises(RuntimeArtifactError, match="made for 'aarch64', this machine is x86_64"):
        load(cross_artifact)


def foreign_wheels(folder: Path) -> Path:
    """Unpack the aarch64 wheels of TVM that this environment has of its own machine."""
    names = [f"{name}=={version(name)}" for name in ("apache-tvm", "apache-tvm-ffi")]
    tags = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (28, 27, 24, 17)]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    subprocess.run([*command, "--only-binary=:all:", *tags, *names], check=True)
    for wheel in folder.glob("*.whl"):
        shutil.unpack_archive(wheel, folder / "site", "zip")
    return folder / "site"


def built_program(site: Path) -> Path:
    """Build the C++ runtime for aarch64 beside the wheels, as its own wheel would be."""
    native = ROOT / "python" / "native"
    includes = [f"-I{native / 'include'}", f"-I{site / 'tvm_ffi' / 'include'}"]
    includes.append(f"-I{site / 'tvm_ffi' / '3rdparty' / 'dlpack' / 'include'}")
    known = {"VERSION": "0", "BUILT_FOR_TVM": "none", "BUILT_FOR_TVM_FFI": "none"}
    defined = [f'-DTVM_SPARSE_{name}="{value}"' for name, value in known.items()]
    libraries = [f"-L{site / 'tvm_ffi' / 'lib'}", "-ltvm_ffi", "-Wl,--allow-shlib-undefined"]
    sources = [*native.glob("src/*.cc"), *native.glob("program/*.cc")]
    program = site / "run"
    command = [CROSS, "-std=c++17", "-O1", *includes, *defined, *sources, *libraries]
    subprocess.run([*command, "-ldl", "-lpthread", "-o", program], check=True)
    return program


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-aarch64 is not installed")
def test_an_emulated_arm_gives_what_pytorch_gives(cross_artifact, tmp_path):
    site = foreign_wheels(tmp_path)
    np.save(tmp_path / "x.npy", X)
    places = ":".join(str(site / name / "lib") for name in ("tvm_ffi", "tvm"))
    emulator = ["qemu-aarch64", "-L", SYSTEM, "-E", f"LD_LIBRARY_PATH={places}"]
    files = ["--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy", "--threads", "1"]
    subprocess.run([*emulator, built_program(site), cross_artifact, *files], check=True)
    wanted = model()(torch.from_numpy(X)).detach().numpy()
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), wanted, rtol=1e-4, atol=1e-5)


def test_libraries_have_no_tables_for_debuggers(tmp_path):
    library = ts.compile(model(), (torch.from_numpy(X),), config=ts.Config(measure=False))
    path = library.export(tmp_path / "a.tvms")
    (linked,) = path.glob("*.so")
    content = linked.read_bytes()
    assert b".text" in content and b".debug" not in content
