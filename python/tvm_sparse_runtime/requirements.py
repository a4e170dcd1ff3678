"""What an artifact asks of the machine: versions of TVM, an architecture, instruction sets."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

from . import engine, gpu, host
from .errors import RuntimeArtifactError, shown
from .manifest import Manifest, TargetRecord
from .version import TVM

_KINDS = ("llvm", "cuda")
_DISTRIBUTIONS = {"tvm": "apache-tvm", "tvm_ffi": "apache-tvm-ffi"}


def check_versions(loaded: Manifest, directory: Path) -> None:
    """Refuse an artifact of another TVM: bytecode and calling convention are not stable."""
    for key, distribution in _DISTRIBUTIONS.items():
        installed = _version(distribution)
        if installed != loaded.versions[key]:
            raise RuntimeArtifactError(
                str(directory),
                f"made with {distribution} {loaded.versions[key]}, here it is {installed}",
                "the same version",
                f"pip install {distribution}=={loaded.versions[key]}, or export it again",
            )


def _version(distribution: str) -> str:
    """Return the version that is installed, or carried where TVM is not installed."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        carried = distribution == _DISTRIBUTIONS["tvm"] and engine.CARRIED.is_dir()
        return TVM if carried else "not installed"


def best_program(loaded: Manifest, directory: Path, *, ask_gpu: bool = True) -> Manifest:
    """Return the program with the most instruction sets that this machine has all of.

    Of several for GPUs that is the best for the one that is here (:func:`.gpu.best`), or the first
    where it is not asked. Whether the GPU fits a single one is checked by :func:`.gpu.require`.

    Raises
    ------
    SparseRuntimeError
        There is no GPU to choose for.
    RuntimeArtifactError
        There is none; it says what the one with the fewest needs.
    """
    programs = sorted(loaded.programs(), key=lambda one: len(one.target.cpu_features))
    check_host(programs[0], directory)
    fitting = [one for one in programs if not _missing(one.target)]
    if loaded.target.kind == "cuda":
        several = ask_gpu and len(fitting) > 1
        archs = [one.target.gpu_archs for one in fitting]
        return fitting[gpu.best(archs, str(directory)) if several else 0]
    return fitting[-1]


def check_host(loaded: Manifest, directory: Path) -> None:
    """Refuse code for another architecture or for instructions this CPU lacks."""
    target = loaded.target
    if target.kind not in _KINDS or (target.kind == "cuda") != bool(target.gpu_archs):
        raise RuntimeArtifactError(
            str(directory), f"made for {shown(target.kind)}", "a CPU (llvm) or NVIDIA GPU (cuda)"
        )
    if target.machine != platform.machine():
        raise RuntimeArtifactError(
            str(directory),
            f"made for {shown(target.machine)}, this machine is {platform.machine()}",
            "the same architecture",
            "compile for this machine",
        )
    missing = _missing(target)
    if missing:
        raise RuntimeArtifactError(
            str(directory),
            f"made for the CPU {shown(target.mcpu)}, this one lacks {', '.join(missing[:8])}",
            "every instruction set it was compiled for",
            "compile for this CPU or for a smaller one such as x86-64-v3",
        )


def _missing(target: TargetRecord) -> list[str]:
    """Return the instruction sets that this machine lacks."""
    return [flag for flag in target.cpu_features if flag not in host.cpu_features()]
