"""What runs in a process whose CUDA driver is the emulated one; it knows no torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tvm_sparse.tuning import operands
from tvm_sparse_emulator import executor
from tvm_sparse_emulator.report import EmulationReport

Run = tuple[list[np.ndarray], EmulationReport]


def run_function(
    path: str,
    operands: Sequence[np.ndarray],
    outputs: Sequence[np.ndarray],
    options: dict,
    workspaces: Sequence[tuple[Sequence[int], str]] = (),
) -> Run:
    """Call ``main`` of a library with ``operands`` and ``outputs``, which begin as they are.

    ``workspaces`` are shapes and dtypes of arguments behind them, which begin unwritten.
    """
    import tvm

    device = tvm.cuda(0)
    executor.options(**options)
    executor.report()
    function = tvm.runtime.load_module(path)["main"]
    arrays = [tvm.runtime.tensor(array, device) for array in (*operands, *outputs)]
    function(*arrays, *(tvm.runtime.empty(tuple(s), dtype, device) for s, dtype in workspaces))
    device.sync()
    return [array.numpy() for array in arrays[len(operands) :]], executor.report()


def count(path: str, directory: str, options: dict) -> EmulationReport:
    """Return what ``main`` of a library does with the arguments in ``directory``."""
    inputs, specs = operands.load(Path(directory))
    _, report = run_function(path, inputs, [np.zeros(*spec) for spec in specs], options)
    return report


def run_artifact(
    path: str, trusted: list[bytes] | None, calls: Sequence[Sequence[np.ndarray]], options: dict
) -> list[Run]:
    """Load an artifact that ``trusted`` keys signed and call it with each of ``calls`` in turn."""
    from tvm_sparse_runtime.library import load

    executor.options(**options)
    executor.report()
    library = load(path, verify=trusted is not None, trusted=trusted)
    runs = []
    for inputs in calls:
        runs.append(([_array(one) for one in library.run(*inputs)], executor.report()))
    return runs


def _array(value: Any) -> np.ndarray:
    return np.array(value)
