"""Random files and callers against the C interface, under the address sanitizer and UBSan."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import tvm_ffi.libinfo

from tests import stored
from tvm_sparse_runtime.manifest import FILE_NAME

ROOT = Path(__file__).resolve().parents[2]
HERE, NATIVE = ROOT / "tests" / "damage" / "native", ROOT / "python" / "native"
FLAGS = "-std=c++17 -O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all".split()
DEFINED = [f'-DTVM_SPARSE_{name}="0"' for name in ("VERSION", "BUILT_FOR_TVM", "BUILT_FOR_TVM_FFI")]
LIBRARY = Path(tvm_ffi.libinfo.find_libtvm_ffi())
OWN = [NATIVE / name for name in ("src", "program")]  # not for <...>: one is called elf.h
OTHERS = [
    NATIVE / "include",
    tvm_ffi.libinfo.find_include_path(),
    tvm_ffi.libinfo.find_dlpack_include_path(),
]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A function that compiles a program of ``native`` with the sanitizers."""
    folder = tmp_path_factory.mktemp("native")
    compiler = shutil.which("g++")
    probe = folder / "probe.cc"
    probe.write_text("int main() {}\n")
    command = [compiler or "g++", *FLAGS, str(probe), "-o", str(folder / "probe")]
    if compiler is None or subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("needs g++ with the address sanitizer and UBSan")

    def build(name: str, *sources: Path) -> Path:
        program = folder / name
        subprocess.run(
            [compiler, *FLAGS, *DEFINED, *(f"-iquote{place}" for place in OWN)]
            + [f"-I{place}" for place in OTHERS]
            + [str(HERE / f"{name}.cc"), *map(str, sources), str(LIBRARY), "-ldl", "-pthread"]
            + [f"-Wl,-rpath,{LIBRARY.parent}", "-o", str(program)],
            check=True,
        )
        return program

    return build


def counted(program: Path, seed: int, rounds: int, file: Path) -> tuple[int, int]:
    """Run a program; return the two numbers that it prints."""
    done = subprocess.run(
        [program, str(seed), str(rounds), file],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=1"},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    first, second = done.stdout.split()
    return int(first), int(second)


def test_npy_files(built, tmp_path):
    program = built("npy", *(NATIVE / "program" / name for name in ("npy.cc", "npy_header.cc")))
    read, refused = counted(program, 0, 40_000, tmp_path / "x.npy")
    assert read > 4000
    assert refused > 20_000


def test_manifests_extents_and_inputs(built):
    program = built("api", *sorted((NATIVE / "src").glob("*.cc")))
    manifests, inputs = counted(program, 0, 20_000, stored.path(5) / FILE_NAME)
    assert manifests > 100
    assert inputs > 100
