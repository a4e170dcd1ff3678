"""Compiled CUDA models on a CPU: what they compute, and what their kernels do."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.artifact.own_key import own_key
from tvm_sparse.base.targets import cuda_archs, spelled
from tvm_sparse.emulation.process import Emulator
from tvm_sparse.errors import InputError
from tvm_sparse_emulator.report import EmulationReport


@dataclass(frozen=True)
class Emulation:
    """Outputs of the last call, its launches, and the findings of all calls."""

    outputs: tuple[np.ndarray, ...]
    report: EmulationReport


def emulate(
    library: Any, *inputs: Any, calls: int = 2, sanitize: bool = True, libraries: bool = True
) -> Emulation:
    """Execute a model that was compiled for CUDA on this CPU: its PTX, under a sanitizer.

    Host code, weights and CUDA graphs are those of an artifact. A CPU takes thousands of times as
    long as a GPU: small inputs are enough to see what is wrong.

    Parameters
    ----------
    library
        What ``tvm_sparse.compile(..., target="cuda:...")`` returned.
    inputs
        Arrays of the model's inputs.
    calls
        Calls with the same inputs: from the second on, kernels run in a captured CUDA graph.
    sanitize
        Look for errors in what kernels do to memory.
    libraries
        Layers that ask a library get the answer of a stand-in; ``False``: our own kernels run.

    Raises
    ------
    InputError
        The library was compiled for another target.
    SparseError
        A kernel holds an instruction that the executor does not know.
    """
    if not cuda_archs(library.target):
        raise InputError("library", f"compiled for '{spelled(library.target)}'", "target 'cuda'")
    arrays = [np.asarray(value) for value in inputs]
    with (
        tempfile.TemporaryDirectory() as place,
        Emulator(library.target, sanitize=sanitize, libraries=libraries) as emulator,
    ):
        path = library.export(Path(place, "model.tvms"), ptx=True, sign=own_key())
        runs = emulator.run_artifact(path, [arrays] * calls)
    outputs, last = runs[-1]
    findings = tuple(finding for _, report in runs for finding in report.findings)
    return Emulation(tuple(outputs), EmulationReport(last.launches, findings))
