"""Libraries with PTX in a process of their own, whose CUDA driver executes it on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.target import Target

from tvm_sparse.artifact.cubin import packer, to_ptx
from tvm_sparse.artifact.own_key import own_trust
from tvm_sparse.base.targets import capability, newest_arch
from tvm_sparse.emulation import worker
from tvm_sparse.errors import SparseError
from tvm_sparse.passes.finish.lift_workspaces import without_workspaces
from tvm_sparse.schedules.build import build_scheduled
from tvm_sparse.tuning.pool import Closing, Outcome, WorkerPool
from tvm_sparse_emulator import stand_in
from tvm_sparse_emulator.report import EmulationReport
from tvm_sparse_runtime.libraries import CUBLASLT, CUDNN, CUSPARSELT, LIBRARIES

SECONDS = 1800.0
"""Limit for one call; a CPU takes a thousand times as long as a GPU."""

STAND_INS = {
    CUBLASLT: stand_in.CUBLASLT,
    CUDNN: stand_in.CUDNN,
    CUSPARSELT: stand_in.CUSPARSELT,
}
"""Files of the stand-ins for libraries."""

Change = Callable[[str], str]


def environment(target: Target, *, libraries: bool = True) -> dict[str, str]:
    """Return the variables of a process whose driver stands in for the newest GPU of ``target``.

    With ``libraries`` there are stand-ins for NVIDIA's, too; the real ones need a GPU.
    """
    own = stand_in.environment(capability=capability(newest_arch(target)))
    for chosen, file in STAND_INS.items():
        place = str(stand_in.directory() / file) if libraries else "off"
        own[LIBRARIES[chosen].variable] = place
    return own


class Emulator(Closing):
    """A process with the emulated driver; it starts at the first call.

    Parameters
    ----------
    target
        What to build for.
    sanitize
        Look for errors in what kernels do to memory.
    blocks
        Execute at most so many blocks of a grid, spread over it; 0 for all.
    libraries
        Let stand-ins compute the layers that ask for a library.
    """

    def __init__(
        self, target: Target, *, sanitize: bool = True, blocks: int = 0, libraries: bool = True
    ) -> None:
        self.target = target
        self.options = {"sanitize": sanitize, "blocks": blocks}
        self._pool = WorkerPool(1, SECONDS, environment=environment(target, libraries=libraries))
        self._place = tempfile.TemporaryDirectory(prefix="tvm-sparse-ptx-")
        self._built = 0

    def close(self) -> None:
        """End the process."""
        self._pool.close()
        self._place.cleanup()

    def run(
        self,
        module: tvm.IRModule,
        operands: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        change: Change = str,
    ) -> tuple[list[np.ndarray], EmulationReport]:
        """Build scheduled functions, and run ``main`` with copies of ``operands`` and ``outputs``.

        ``change`` may change the PTX before it is executed.

        Returns
        -------
        outputs, report
            What is in ``outputs`` afterwards, and what was executed and found.

        Raises
        ------
        SparseError
            It does not run; the message says why.
        """
        self._built += 1
        # Arrays that TVM would take from a pool hold what an earlier call left there.
        func, own = without_workspaces(module["main"])
        module = tvm.IRModule({"main": func}, attrs=module.attrs) if own else module
        path = Path(self._place.name, f"library{self._built}.so")
        built = build_scheduled(module, self.target)
        pack = packer(to_ptx(self.target, change))
        built.export_library(str(path), fpack_imports=pack)
        arrays = [[np.ascontiguousarray(a) for a in group] for group in (operands, outputs)]
        return self._call(worker.run_function, (str(path), *arrays, self.options, own))

    def run_artifact(
        self, path: Path, calls: Sequence[Sequence[np.ndarray]]
    ) -> list[tuple[list[np.ndarray], EmulationReport]]:
        """Load this process's own artifact that holds PTX and call it with each of ``calls``."""
        return self._call(worker.run_artifact, (str(path), own_trust(), calls, self.options))

    def _call(self, function: Callable, arguments: tuple) -> Any:
        (outcome,) = self._pool.map(function, [arguments])
        return _value(outcome)


def _value(outcome: Outcome) -> Any:
    """Return what a call gave; raise if it failed."""
    if outcome.error is not None:
        raise SparseError("emulation", outcome.error)
    return outcome.value
