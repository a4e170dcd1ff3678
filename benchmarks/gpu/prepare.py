"""Build kernels of the GPU benchmark: a library with machine code and the packed weight, on disk.

Needs a CUDA compiler but no GPU, so that everything can be built before a GPU is at hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.target import Target

from benchmarks.gpu.cases import Case
from tvm_sparse.artifact.cubin import packing
from tvm_sparse.ops.cuda import depthwise_options, options
from tvm_sparse.ops.cuda.option import Option
from tvm_sparse.schedules.build import build_function
from tvm_sparse.targets import parse_target

BUILT = Path(__file__).resolve().parents[2] / "build" / "gpu"
REARRANGED = "rearranged"
"""The papers' sub-GEMMs, built for depthwise layers besides the storage of the pattern."""


Program = tuple[Option, list[np.ndarray]]
"""What is built of a kernel: its option, and the arrays that it reads."""


class Buildable(Protocol):
    """A kernel that :func:`build` knows how to build."""

    @property
    def name(self) -> str:
        """Name of the kernel, a key of the results."""

    def place(self, target: str) -> Path:
        """Return the directory of the built kernel."""

    def program(self, target: Target) -> Program:
        """Return what is built."""


def place_of(definition: str) -> Path:
    """Return the directory of what is built from ``definition``."""
    return BUILT / hashlib.sha256(definition.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Kernel:
    """A case with the storage that computes it."""

    case: Case
    storage: str

    @property
    def name(self) -> str:
        """Name of the kernel, a key of the results."""
        return f"{self.case.name}: {self.storage}"

    def place(self, target: str) -> Path:
        """Return the directory of the built kernel; another definition has another one."""
        return place_of(f"{self.name} {self.case} {target}")

    def program(self, target: Target) -> Program:
        """Return what is built: the option of the storage, and the packed weight."""
        matrix = self.case.weight()
        option = _option(self, matrix, target)
        encoded = depthwise_options.diagonal(matrix) if self.storage == REARRANGED else matrix
        return option, list(option.storage.encode(encoded).values())


def kernels(cases: Iterable[Case]) -> list[Kernel]:
    """Return everything of ours that is measured: each case's storage, and sub-GEMMs."""
    found = []
    for case in cases:
        found.append(Kernel(case, case.storage))
        if case.contraction.depthwise:
            found.append(Kernel(case, REARRANGED))
    return found


def build_all(
    wanted: Iterable[Buildable], target: str, workers: int
) -> Iterator[tuple[Buildable, str]]:
    """Build what is not there yet; yield each kernel with its error, or an empty text."""
    missing = []
    for kernel in wanted:
        if (kernel.place(target) / "kernel.json").exists():
            yield kernel, ""
        else:
            missing.append(kernel)
    if not missing:
        return
    # Fresh processes: CUDA, once used, does not survive a fork.
    with ProcessPoolExecutor(workers, initializer=_quiet, mp_context=_spawn()) as pool:
        waiting = {
            pool.submit(build, kernel, target, kernel.place(target)): kernel for kernel in missing
        }
        for done in as_completed(waiting):
            error = done.exception()
            yield waiting[done], "" if error is None else f"{type(error).__name__}: {error}"


def build(kernel: Buildable, target: str, place: Path) -> None:
    """Build one kernel into the directory ``place``, which appears whole or not at all."""
    resolved = parse_target(target).target
    option, arrays = kernel.program(resolved)
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        work = Path(temporary, "kernel")
        work.mkdir()
        module = build_function(option.build(), resolved)
        module.export_library(str(work / "kernel.so"), **packing(resolved))
        for i, array in enumerate(arrays):
            np.save(work / f"{i}.npy", np.ascontiguousarray(array))
        record = {
            "name": kernel.name,
            "kernel": option.kernel,
            "storage": repr(option.storage),
            "modelled_us": option.seconds * 1e6,
            "weight_bytes": int(sum(a.nbytes for a in arrays)),
            "arrays": len(arrays),
        }
        (work / "kernel.json").write_text(json.dumps(record))
        work.rename(place)


def load(kernel: Buildable, target: str) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
    """Return a built kernel's function, its arrays and its record."""
    place = kernel.place(target)
    record = json.loads((place / "kernel.json").read_text())
    module = tvm.runtime.load_module(str(place / "kernel.so"))
    arrays = [np.load(place / f"{i}.npy", mmap_mode="r") for i in range(record["arrays"])]
    return module["main"], arrays, record


def _option(kernel: Kernel, matrix: np.ndarray, target: Any) -> Option:
    """Return the option of a kernel's storage."""
    c = kernel.case.contraction
    if kernel.storage == "dense":
        return options.dense(c, target)
    if kernel.storage == REARRANGED:
        return depthwise_options.rearranged(c, matrix, target)
    found = list(options.sparse(c, matrix, target))
    known = [o for o in found if not isinstance(o, str)]
    named = [o for o in known if o.name == kernel.storage]
    if kernel.case.pattern.startswith("joint") and not named:
        # No tile is empty everywhere: what the compiler takes instead, by its model.
        named = sorted(known, key=lambda o: o.seconds)
    if not named:
        reasons = "; ".join(o for o in found if isinstance(o, str))
        raise ValueError(f"no storage '{kernel.storage}' ({reasons})")
    return named[0]


def _quiet() -> None:
    """One thread a process; the pool has as many processes as there are cores."""
    os.environ.update(OMP_NUM_THREADS="1", TVM_FFI_DISABLE_TORCH_C_DLPACK="1")


def _spawn() -> Any:
    import multiprocessing

    return multiprocessing.get_context("spawn")
