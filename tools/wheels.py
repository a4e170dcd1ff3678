"""Build the release files of all distributions: sources, and wheels for x86-64 and aarch64.

The wheels are ``manylinux_2_28``: Zig's Clang compiles for glibc 2.28 of either machine, and
auditwheel checks the result. This needs no container and no cross compiler.
"""

from __future__ import annotations

import argparse
import os
import runpy
import subprocess
import sys
import tempfile
import zipfile
from importlib.metadata import version
from pathlib import Path

import ziglang

ROOT = Path(__file__).resolve().parent.parent
PROJECTS = (ROOT / "python", ROOT / "emulator", ROOT)
MACHINES = ("x86_64", "aarch64")


def run(*command: str | Path, **environment: str) -> None:
    """Run ``command``, with ``environment`` added to this process's own and its programs first."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    subprocess.run(command, check=True, env=os.environ | {"PATH": programs} | environment)


def fetch(distribution: str, machine: str, folder: Path) -> None:
    """Unpack the installed release of ``distribution``, built for ``machine``, into ``folder``."""
    name = f"{distribution}=={version(distribution)}"
    tags = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (28, 27, 24, 17)]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:")
    with tempfile.TemporaryDirectory() as files:
        run(*pip, *tags, "--dest", files, name)
        (wheel,) = Path(files).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)


def build_wheel(project: Path, machine: str, wheels: Path, output: Path) -> None:
    """Build the wheel of ``project`` for ``machine`` and check it, into ``output``.

    ``wheels``: where the wheels of TVM for ``machine`` are unpacked. Ours links against one of
    their libraries and carries another.
    """
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "cmake.define.CMAKE_TOOLCHAIN_FILE": ROOT / "tools" / "manylinux.cmake",
            "cmake.define.TVM_FFI_LIBRARY": wheels / "tvm_ffi" / "lib" / "libtvm_ffi.so",
            "cmake.define.TVM_WHEEL": wheels,
            "build-dir": Path(folder) / "build",
        }
        settings = [f"-C{name}={value}" for name, value in options.items()]
        run(
            *(sys.executable, "-m", "build", "--wheel", "--outdir", folder, *settings, project),
            WHEEL_MACHINE=machine,
            WHEEL_ZIG=str(Path(ziglang.__file__).parent / "zig"),
            # The platform that Python's packaging reads for the wheel's name.
            _PYTHON_HOST_PLATFORM=f"linux-{machine}",
        )
        (wheel,) = Path(folder).glob("*.whl")
        # One comes with its own wheel, one is carried as it is, two with NVIDIA's driver and wheel.
        others = ("libtvm_ffi.so", "libtvm_runtime.so", "libcuda.so.1", "libcudart.so.13")
        excluded = [word for name in others for word in ("--exclude", name)]
        repair = ("repair", *excluded, "--wheel-dir", output, wheel)
        run(sys.executable, "-m", "auditwheel", *repair)


def require_notes() -> None:
    """Stop where the changelog has no section for the version that is built."""
    version_file = ROOT / "python" / "tvm_sparse_runtime" / "version.py"
    release = runpy.run_path(str(version_file))["__version__"]
    notes = (sys.executable, ROOT / "tools" / "release_notes.py", release)
    subprocess.run(notes, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("output", nargs="?", type=Path, default=ROOT / "dist")
    parser.add_argument("--machine", choices=MACHINES, action="append", help="default: each")
    arguments = parser.parse_args()
    require_notes()
    for project in PROJECTS:
        run(sys.executable, "-m", "build", "--sdist", "--outdir", arguments.output, project)
    for machine in arguments.machine or MACHINES:
        with tempfile.TemporaryDirectory() as folder:
            for distribution in ("apache-tvm", "apache-tvm-ffi"):
                fetch(distribution, machine, Path(folder))
            for project in PROJECTS:
                build_wheel(project, machine, Path(folder), arguments.output)
    for file in sorted(arguments.output.iterdir()):
        print(f"{file.stat().st_size / 2**20:7.2f} MiB  {file.name}")


if __name__ == "__main__":
    main()
