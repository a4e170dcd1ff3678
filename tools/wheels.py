"""Build the release files of both distributions: sources, and wheels for x86-64 and aarch64.

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
PROJECTS = (ROOT / "python", ROOT)
MACHINES = ("x86_64", "aarch64")


def run(*command: str | Path, **environment: str) -> None:
    """Run ``command``, with ``environment`` added to this process's own and its programs first."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    subprocess.run(command, check=True, env=os.environ | {"PATH": programs} | environment)


def ffi_library(machine: str, folder: Path) -> Path:
    """Fetch the libtvm_ffi of ``machine`` into ``folder``: ours is linked against it."""
    name = f"apache-tvm-ffi=={version('apache-tvm-ffi')}"
    tags = [f"--platform=manylinux_2_{minor}_{machine}" for minor in (28, 24, 17)]
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:")
    run(*pip, *tags, "--dest", folder, name)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract("tvm_ffi/lib/libtvm_ffi.so", folder))


def build_wheel(project: Path, machine: str, library: Path, output: Path) -> None:
    """Build the wheel of ``project`` for ``machine`` and check it, into ``output``."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "cmake.define.CMAKE_TOOLCHAIN_FILE": ROOT / "tools" / "manylinux.cmake",
            "cmake.define.TVM_FFI_LIBRARY": library,
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
        # TVM's libraries come with their own wheels.
        repair = ("repair", "--exclude", "libtvm_ffi.so", "--wheel-dir", output, wheel)
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
            library = ffi_library(machine, Path(folder))
            for project in PROJECTS:
                build_wheel(project, machine, library, arguments.output)
    for file in sorted(arguments.output.iterdir()):
        print(f"{file.stat().st_size / 2**20:7.2f} MiB  {file.name}")


if __name__ == "__main__":
    main()
