"""Times of schedules for a GPU that is not here: counted by executing PTX, then modelled."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import tvm
from tvm.target import Target

from tvm_sparse.artifact.cubin import packer, to_ptx
from tvm_sparse.base import json_text
from tvm_sparse.base.targets import cuda_archs, newest_arch, spelled
from tvm_sparse.emulation import worker
from tvm_sparse.emulation.counted_time import launch_seconds
from tvm_sparse.emulation.process import environment
from tvm_sparse.errors import InputError, SparseError
from tvm_sparse.schedules.build import build_scheduled
from tvm_sparse.schedules.cuda.nvrtc import compile_source
from tvm_sparse.schedules.cuda.resources import KernelResources, kernel_resources
from tvm_sparse.selection.cuda.chip import chip
from tvm_sparse.tuning import operands
from tvm_sparse.tuning.measurer import Measurer
from tvm_sparse.tuning.pool import Outcome, WorkerPool
from tvm_sparse.tuning.record import MODELLED
from tvm_sparse_emulator.report import EmulationReport, Finding

BLOCKS = 4
"""Thread blocks of a grid that are executed; the others are taken to do as much."""

UNINITIALISED = "uninitialised"
"""What the sanitizer calls memory that is read and that nobody wrote."""

SECONDS = 300.0
"""Limit for one execution."""


class ModelledMeasurer(Measurer):
    """Executes some thread blocks of each kernel under the sanitizer, and models their time.

    What a schedule computes is not compared: most of a grid is not executed. A kernel with a
    finding fails.

    Raises
    ------
    InputError
        ``target`` is no NVIDIA GPU.
    """

    source = MODELLED

    def __init__(self, target: Target, directory: Path, builders: int | None = None) -> None:
        if not cuda_archs(target):
            raise InputError("by", f"'model' for target '{spelled(target)}'", "a target 'cuda'")
        super().__init__(target, directory, builders)
        self._runner = WorkerPool(1, SECONDS, environment=environment(target))
        self._known: dict[str, Outcome] = {}

    @staticmethod
    def build(module: tvm.IRModule, target: Target, path: str) -> str:
        """Build ``module`` with PTX, in a worker."""
        return build(module, target, path)

    def expect(self, library: str, directory: Path) -> Outcome:
        """Execute ``library`` once, as a test of it."""
        return self._time(library, directory)

    def run(self, libraries: Sequence[str], directory: Path) -> list[Outcome]:
        """Return the modelled seconds of each library; each is executed once."""
        return [self._time(library, directory) for library in libraries]

    def _time(self, library: str, directory: Path) -> Outcome:
        if library not in self._known:
            options = {"sanitize": True, "blocks": BLOCKS}
            (counted,) = self._runner.map(worker.count, [(library, str(directory), options)])
            self._known[library] = self._modelled(library, directory, counted)
        return self._known[library]

    def _modelled(self, library: str, directory: Path, counted: Outcome) -> Outcome:
        """Return the seconds of what was counted, or why there are none."""
        if counted.error is not None:
            return counted
        report: EmulationReport = counted.value
        if findings := _of_executed(report):
            return Outcome(error=str(findings[0]))
        resources = _resources(library)
        nbytes, on = _operand_bytes(directory), chip(self.target)
        try:
            times = [
                launch_seconds(one, resources[one.kernel], nbytes, on) for one in report.launches
            ]
        except SparseError as error:
            return Outcome(error=str(error))
        return Outcome([sum(times)])

    def close(self) -> None:
        """End all processes."""
        super().close()
        self._runner.close()


def build(module: tvm.IRModule, target: Target, path: str) -> str:
    """Build ``module`` with PTX inside; beside ``path``, write what its machine code uses."""
    made = to_ptx(target)
    found: dict[str, KernelResources] = {}

    def compile_(source: str) -> tuple[str, bytes]:
        found.update(kernel_resources(compile_source(source, newest_arch(target))))
        return made(source)

    build_scheduled(module, target).export_library(path, fpack_imports=packer(compile_))
    content = {name: asdict(one) for name, one in found.items()}
    _beside(path).write_text(json.dumps(content), encoding="utf-8")
    return path


def _of_executed(report: EmulationReport) -> list[Finding]:
    """Return what was found, but for what blocks that were not executed would have written.

    A kernel behind one of which a few blocks were executed reads partial sums that nobody stored.
    """
    behind: set[str] = set()
    sampled = False
    for launch in report.launches:
        if sampled:
            behind.add(launch.kernel)
        sampled |= launch.blocks < math.prod(launch.grid)
    return [f for f in report.findings if f.kind != UNINITIALISED or f.kernel not in behind]


def _resources(library: str) -> dict[str, KernelResources]:
    content = json_text.parsed(_beside(library).read_text(encoding="utf-8"))
    return {name: KernelResources(**one) for name, one in content.items()}


def _beside(library: str) -> Path:
    return Path(library).with_suffix(".json")


def _operand_bytes(directory: Path) -> int:
    """Return the bytes of all inputs and outputs."""
    inputs, specs = operands.load(directory)
    outputs = (math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in specs)
    return sum(array.nbytes for array in inputs) + sum(outputs)
