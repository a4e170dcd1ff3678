"""Build kernels of the GPU benchmark: a library with machine code, and packed weights, on disk.

Needs a CUDA compiler but no GPU, so that everything can be built before a GPU is at hand. Weights
are made from seeds and packed where they are needed: machine code alone is small enough to carry.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import importlib
import json
import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tvm
from tvm.target import Target

from benchmarks.gpu.cases import Case
from tvm_sparse.artifact.cubin import packing
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.ops.cuda import mends
from tvm_sparse.passes.finish.lift_workspaces import without_workspaces
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.schedules.build import build_scheduled, scheduled
from tvm_sparse.selection.cuda import convolution_options, depthwise_options, options
from tvm_sparse.selection.cuda.option import Option

BUILT = Path(
    os.environ.get("GPU_BENCHMARK_BUILT", Path(__file__).resolve().parents[2] / "build" / "gpu")
)
REARRANGED = "rearranged"
"""The papers' sub-GEMMs, built for depthwise layers besides the format of the pattern."""

FIRST = "features first"
"""Dense convolutions as cuDNN reads them, too: what runs where it is not there."""

MAKERS: dict[str, Callable[[Contraction, Scan, Target], Iterable[Option | str]]] = {
    "balanced": options.balanced,
    "block": options.block,
    "two_four": options.two_four,
}
"""Formats that are made without looking at the others, which takes seconds for large weights."""

KERNEL_CODE = ("ops", "formats", "schedules", "selection")
"""Folders of the package that decide what a kernel is: the last one chooses tiles."""


class Buildable(Protocol):
    """A kernel that :func:`build` knows how to build."""

    @property
    def name(self) -> str:
        """Name of the kernel, a key of the results."""

    def built_for(self, target: str) -> str:
        """Return the target of the kernel, ``target`` unless it has one of its own."""

    def place(self, target: str) -> Path:
        """Return the directory of the built kernel."""

    def option(self, target: Target) -> Option:
        """Return what is built."""

    def arrays(self, format: Any) -> list[np.ndarray]:
        """Return the packed weights, in the order in which the kernel takes them."""

    def chosen(self) -> contextlib.AbstractContextManager[Any]:
        """Return what the compiler is like while the kernel is built."""


def place_of(definition: str) -> Path:
    """Return the directory of what is built from ``definition`` by the present code."""
    return BUILT / code_version(*KERNEL_CODE) / hashlib.sha256(definition.encode()).hexdigest()[:16]


@functools.cache
def code_version(*folders: str) -> str:
    """Return a digest of the compiler's code in ``folders``: what it built is built again.

    Data of chips count as code: tiles follow from them.
    """
    digest = hashlib.sha256(tvm.__version__.encode())
    for folder in folders:
        package = importlib.import_module(f"tvm_sparse.{folder}")
        for file in sorted(Path(str(package.__file__)).parent.rglob("*")):
            if file.suffix in (".py", ".json"):
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Kernel:
    """A case with the format that computes it."""

    case: Case
    format: str

    @property
    def name(self) -> str:
        """Name of the kernel, a key of the results."""
        return f"{self.case.name}: {self.format}"

    def built_for(self, target: str) -> str:
        """Return ``target``."""
        return target

    def place(self, target: str) -> Path:
        """Return the directory of the built kernel; another definition has another one."""
        return place_of(f"{self.name} {self.case} {target}")

    def option(self, target: Target) -> Option:
        """Return the option of the format."""
        return _option(self, self.case.weight(), target)

    def arrays(self, format: Any) -> list[np.ndarray]:
        """Return the packed weight."""
        matrix = self.case.weight()
        encoded = depthwise_options.diagonal(matrix) if self.format == REARRANGED else matrix
        return list(format.encode(encoded).values())

    def chosen(self) -> contextlib.AbstractContextManager[Any]:
        """Return the compiler as it is."""
        return contextlib.nullcontext()


def kernels(cases: Iterable[Case]) -> list[Kernel]:
    """Return everything of ours that is measured: each case's format, and sub-GEMMs."""
    found = []
    for case in cases:
        found.append(Kernel(case, case.format))
        if case.contraction.taps:
            found.append(Kernel(case, REARRANGED if case.contraction.depthwise else FIRST))
    return found


def build_all(
    wanted: Iterable[Buildable], target: str, workers: int, *, pack: bool, ptx: bool = False
) -> Iterator[tuple[Buildable, str]]:
    """Build what is not there yet; yield each kernel with its error, or an empty text.

    ``pack`` also packs the weights, which take far more room than the machine code; ``ptx`` builds
    for the stand-in.
    """
    parts = [code_of(ptx), *["arrays"] * pack]
    missing = []
    for kernel in wanted:
        if all((kernel.place(target) / part).exists() for part in parts):
            yield kernel, ""
        else:
            missing.append(kernel)
    if not missing:
        return
    with ProcessPoolExecutor(workers, initializer=_quiet, mp_context=spawn()) as pool:
        waiting = {
            pool.submit(build, kernel, target, kernel.place(target), pack=pack, ptx=ptx): kernel
            for kernel in missing
        }
        for done in as_completed(waiting):
            error = done.exception()
            yield waiting[done], "" if error is None else f"{type(error).__name__}: {error}"


def code_of(ptx: bool) -> str:
    """Return the name of the directory with a kernel's library."""
    return "ptx" if ptx else "code"


def build(
    kernel: Buildable, target: str, place: Path, *, pack: bool = True, ptx: bool = False
) -> None:
    """Build one kernel into the directory ``place``, and pack its weights if asked to."""
    code = place / code_of(ptx)
    if not code.exists():
        if ptx and tvm.cuda(0).exist:
            raise RuntimeError(
                f"{kernel.name}: not built before; where a driver is, TVM makes no PTX"
            )
        resolved = parse_target(kernel.built_for(target)).target
        with _whole(code) as work, kernel.chosen():
            option = kernel.option(resolved)
            func, own = without_workspaces(scheduled(option.build(), resolved)["main"])
            module = build_scheduled(tvm.IRModule({"main": func}), resolved).mod
            module.export_library(str(work / "kernel.so"), **packing(resolved, ptx=ptx))
            (work / "format").write_bytes(pickle.dumps(option.format))
            record: dict[str, Any] = {
                "name": kernel.name,
                "kernel": option.kernel,
                "format": repr(option.format),
                "modelled_us": option.seconds * 1e6,
                "mends": dataclasses.asdict(mends.in_use()),
                "workspaces": own,
            }
            if option.tile is not None:
                record["tile"] = list(dataclasses.astuple(option.tile))
            if option.warps is not None:
                record["warps"] = list(dataclasses.astuple(option.warps))
            (work / "kernel.json").write_text(json.dumps(record))
    if pack and not (place / "arrays").exists():
        # Written by this function, for the same code: no foreign pickle.
        format = pickle.loads((code / "format").read_bytes())
        with _whole(place / "arrays") as work:
            for i, array in enumerate(kernel.arrays(format)):
                np.save(work / f"{i}.npy", np.ascontiguousarray(array))


def load(
    kernel: Buildable, target: str, *, ptx: bool = False
) -> tuple[Any, list[np.ndarray], dict[str, Any]]:
    """Return a built kernel's function, its arrays and its record; needs a GPU's driver."""
    place = kernel.place(target)
    module = tvm.runtime.load_module(str(place / code_of(ptx) / "kernel.so"))
    return module["main"], *packed(place, ptx=ptx)


def packed(place: Path, *, ptx: bool = False) -> tuple[list[np.ndarray], dict[str, Any]]:
    """Return the arrays of the kernel that was built in ``place``, and its record."""
    record = json.loads((place / code_of(ptx) / "kernel.json").read_text())
    count = len(list((place / "arrays").glob("*.npy")))
    arrays = [np.load(place / "arrays" / f"{i}.npy", mmap_mode="r") for i in range(count)]
    return arrays, {**record, "weight_bytes": sum(a.nbytes for a in arrays)}


def code_files(*folders: tuple[str, ...]) -> list[Path]:
    """Return the files that the present code in ``folders`` built, without packed weights.

    Those of the kernels if none are given. A GPU machine needs nothing of other code.
    """
    places = {BUILT / code_version(*one) for one in folders or (KERNEL_CODE,)}
    files = (file for place in sorted(places) for file in place.rglob("*"))
    return [file for file in files if file.is_file() and file.parent.name != "arrays"]


@contextlib.contextmanager
def _whole(place: Path) -> Iterator[Path]:
    """Give a directory to write to, which appears at ``place`` whole or not at all."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        work = Path(temporary, "whole")
        work.mkdir()
        yield work
        work.rename(place)


def _option(kernel: Kernel, matrix: np.ndarray, target: Any) -> Option:
    """Return the option of a kernel's format."""
    c = kernel.case.contraction
    if kernel.format == "dense":
        return options.dense(c, target)
    if kernel.format == REARRANGED:
        return depthwise_options.rearranged(c, matrix, target)
    if kernel.format == FIRST:
        found_first = convolution_options.convolution(c, target)
        assert found_first is not None
        return found_first
    if kernel.format in MAKERS:
        found = list(MAKERS[kernel.format](c, Scan(matrix), target))
    else:
        found = list(options.sparse(c, Scan(matrix), target))
    known = [o for o in found if not isinstance(o, str)]
    named = [o for o in known if o.name == kernel.format]
    if kernel.case.pattern.startswith("joint") and not named:
        # No tile is empty everywhere: what the compiler takes instead, by its model.
        named = sorted(known, key=lambda o: o.seconds)
    if not named:
        reasons = "; ".join(o for o in found if isinstance(o, str))
        raise ValueError(f"no format '{kernel.format}' ({reasons})")
    return named[0]


def _quiet() -> None:
    """One thread a process; the pool has as many processes as there are cores."""
    os.environ.update(OMP_NUM_THREADS="1", TVM_FFI_DISABLE_TORCH_C_DLPACK="1")


def spawn() -> Any:
    """Return how processes start: afresh, since CUDA, once used, does not survive a fork."""
    import multiprocessing

    return multiprocessing.get_context("spawn")
