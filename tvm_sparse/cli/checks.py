"""What ``tvm-sparse doctor`` looks at: each check says what it found and what to do about it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

Status = Literal["ok", "note", "problem"]

DISTRIBUTION = "tvm-sparse"

DRIVER, CUDA_MAJOR = "libcuda.so.1", 13
"""The library of NVIDIA's driver, and the version of CUDA whose runtime programs load."""

OTHERS = {
    "TensorRT": ("torch-tensorrt", "torch_tensorrt"),
}
"""How the names of their wheels begin; some end in the version of CUDA."""


@dataclass(frozen=True)
class Finding:
    """The result of one check: a ``problem`` stops the work, a ``note`` leaves something out."""

    check: str
    status: Status
    found: str
    todo: str = ""


def findings() -> list[Finding]:
    """Run all checks; none of them changes anything."""
    return [finding for check in CHECKS for finding in check()]


def _python() -> Iterator[Finding]:
    wanted = importlib.metadata.metadata(DISTRIBUTION)["Requires-Python"] or ""
    fits = Requirement(f"python{wanted}").specifier.contains(platform.python_version(), True)
    found = f"{platform.python_version()} at {sys.executable}"
    yield Finding("Python", "ok" if fits else "problem", found, "" if fits else f"use {wanted}")


def _packages() -> Iterator[Finding]:
    """Compare what is installed with what this package's own metadata asks for."""
    required = map(Requirement, importlib.metadata.requires(DISTRIBUTION) or ())
    for requirement in required:
        extra = requirement.marker is not None and "extra" in str(requirement.marker)
        if not extra and (requirement.marker is None or requirement.marker.evaluate()):
            yield _package(requirement)


def _package(requirement: Requirement) -> Finding:
    asked = f"{requirement.name}{requirement.specifier}"
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        todo = f"pip install '{asked}'"
        return Finding(requirement.name, "problem", "not installed", todo)
    if requirement.specifier.contains(version, prereleases=True):
        return Finding(requirement.name, "ok", version)
    return Finding(requirement.name, "problem", version, f"pip install '{asked}'")


def _extras() -> Iterator[Finding]:
    """Name the optional parts that are not installed."""
    metadata = importlib.metadata.metadata(DISTRIBUTION)
    required = [*map(Requirement, importlib.metadata.requires(DISTRIBUTION) or ())]
    missing = []
    for extra in metadata.get_all("Provides-Extra") or ():
        wanted = [r for r in required if r.marker and r.marker.evaluate({"extra": extra})]
        if any(_package(r).status != "ok" for r in wanted):
            missing.append(extra)
    found = f"not installed: {', '.join(missing)}" if missing else "all installed"
    todo = f"pip install 'tvm-sparse[{missing[0]}]' and so on, where needed" if missing else ""
    yield Finding("extras", "note" if missing else "ok", found, todo)


def _cpu() -> Iterator[Finding]:
    from tvm.target import codegen

    from tvm_sparse.base.targets import parse_target, threads_of
    from tvm_sparse.machine.fitted import costs_of
    from tvm_sparse.machine.registry import machine_of

    target = parse_target("cpu").target
    machine, costs = machine_of(target), costs_of(target)
    cores = f"{threads_of(target)} threads"
    yield Finding("CPU", "ok", f"{codegen.llvm_get_system_cpu()}, {machine.name}, {cores}")
    fitted = "fitted" in costs.source
    todo = "" if fitted else "tvm-sparse machine --fit measures this machine's own"
    yield Finding("costs of the models", "ok" if fitted else "note", costs.source, todo)


def _compiler() -> Iterator[Finding]:
    from tvm.support import cc

    compiler = cc.get_cc()
    path = shutil.which(str(compiler)) if compiler else None
    if path:
        yield Finding("C++ compiler", "ok", path)
    else:
        todo = "install one (for example the package g++) or set CXX: it links artifacts"
        yield Finding("C++ compiler", "problem", "none", todo)


def _gpu() -> Iterator[Finding]:
    import tvm

    if tvm.cuda(0).exist:
        yield Finding("GPU", "ok", f"sm_{tvm.cuda(0).compute_version}".replace(".", ""))
    else:
        yield Finding("GPU", "note", "none", "CUDA code can be compiled here, not run")
    try:
        yield Finding("NVRTC", "ok", importlib.metadata.version("nvidia-cuda-nvrtc"))
    except importlib.metadata.PackageNotFoundError:
        todo = "pip install 'tvm-sparse[cuda]' to compile for CUDA"
        yield Finding("NVRTC", "note", "not installed", todo)


def _driver() -> Iterator[Finding]:
    """Say which version of CUDA the driver of NVIDIA GPUs takes."""
    version = ctypes.c_int()
    try:
        driver = ctypes.CDLL(DRIVER)
        driver.cuDriverGetVersion(ctypes.byref(version))
    except OSError:
        todo = "install NVIDIA's driver to run CUDA code here"
        yield Finding("NVIDIA driver", "note", f"{DRIVER} cannot be loaded", todo)
        return
    except AttributeError:
        yield Finding("NVIDIA driver", "note", f"{DRIVER} does not tell its version")
        return
    major, minor = version.value // 1000, version.value % 1000 // 10
    found = f"takes CUDA {major}.{minor}"
    if major >= CUDA_MAJOR:
        yield Finding("NVIDIA driver", "ok", found)
    else:
        todo = f"install a driver that takes CUDA {CUDA_MAJOR}"
        yield Finding("NVIDIA driver", "note", found, todo)


def _others() -> Iterator[Finding]:
    """Name libraries of NVIDIA's that programs do not ask; PyTorch may, and ``bench`` TensorRT."""
    installed = {
        str(one.metadata["Name"]).lower(): one.version for one in importlib.metadata.distributions()
    }
    told = []
    for library, distributions in OTHERS.items():
        names = [n for n in installed if n.startswith(distributions)]
        told.append(f"{library} {installed[min(names)] if names else 'not installed'}")
    yield Finding("not asked by programs", "ok", ", ".join(told))


def _libraries() -> Iterator[Finding]:
    """Say which libraries compute layers on this machine's GPU."""
    from tvm_sparse_runtime.libraries import LIBRARIES, found

    for chosen, library in LIBRARIES.items():
        there = found(chosen)
        if not there.problem:
            yield Finding(library.name, "ok", f"{there.version}, {there.path}")
        else:
            todo = (
                f"{library.kind} {library.layers} run by our own kernels on GPUs;"
                " pip install 'tvm-sparse[cuda-libraries]'"
            )
            yield Finding(library.name, "note", there.problem, todo)


def _caches() -> Iterator[Finding]:
    from tvm_sparse.base.cache_directory import cache_directory
    from tvm_sparse.tuning.database import default_path

    for name, path in (("cache", cache_directory()), ("tuning records", default_path())):
        size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
        found = f"{path}, {size / 1024:.0f} KiB"
        above = _existing(path)
        writable = above.is_dir() and os.access(above, os.W_OK)
        todo = "" if writable else "make it writable, or set XDG_CACHE_HOME and XDG_DATA_HOME"
        yield Finding(name, "ok" if writable else "problem", found, todo)


def _existing(path: Path) -> Path:
    """Return ``path`` or the nearest folder above that exists."""
    return next(p for p in (path, *path.parents) if p.exists())


def _settings() -> Iterator[Finding]:
    """Name the variables that change what is compiled or how it runs."""
    from tvm_sparse_runtime.libraries import LIBRARIES

    asked = [library.variable for library in LIBRARIES.values()]
    for name in ("TVM_NUM_THREADS", "TVM_SPARSE_DUMP", *asked):
        if value := os.environ.get(name):
            yield Finding(name, "ok", value)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _python,
    _packages,
    _extras,
    _cpu,
    _compiler,
    _gpu,
    _driver,
    _libraries,
    _others,
    _caches,
    _settings,
)
