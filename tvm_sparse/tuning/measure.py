"""Run built functions on saved arguments: check what they compute, then time them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tvm

from tvm_sparse.tuning import operands
from tvm_sparse.tuning.gpu_timer import cold_times

EXPECTED = "expected{}.npy"

Tensors = tuple[list[Any], list[Any]]
"""Inputs and outputs on a device."""


class Timing(NamedTuple):
    """How long to measure: ``repeat`` times, each at least ``milliseconds``.

    The shortest counts, so many short ones see more of an undisturbed machine than few long ones.
    """

    repeat: int = 5
    milliseconds: int = 8


class WrongResultError(Exception):
    """A schedule that does not compute what the function says."""


def expect(library: str, directory: str, device: str) -> None:
    """Run the reference ``library`` and save its results for :func:`measure` to compare with."""
    function = tvm.runtime.load_module(library)["main"]
    save_expected(function, _arguments(directory, device), Path(directory))


def measure(library: str, directory: str, device: str, timing: Timing) -> list[float]:
    """Return the seconds of one call, for each repetition.

    Raises
    ------
    WrongResultError
        The results differ from the expected ones.
    """
    module = tvm.runtime.load_module(library)
    tensors = _arguments(directory, device)
    if device != "cuda":
        return run(module, tvm.device(device), tensors, Path(directory), timing)
    check(module, tensors, Path(directory))
    function, (inputs, outputs) = module["main"], tensors
    return cold_times(lambda: function(*inputs, *outputs), timing.repeat)


def run(module: Any, device: Any, tensors: Tensors, directory: Path, timing: Timing) -> list[float]:
    """Check and time ``module``, here or at the other end of an RPC session."""
    check(module, tensors, directory)
    inputs, outputs = tensors
    timer = module.time_evaluator(
        "main", device, number=1, repeat=timing.repeat, min_repeat_ms=timing.milliseconds
    )
    return [float(seconds) for seconds in timer(*inputs, *outputs).results]


def check(module: Any, tensors: Tensors, directory: Path) -> None:
    """Raise :class:`WrongResultError` unless ``module`` computes what is expected."""
    inputs, outputs = tensors
    _blank(outputs)
    module["main"](*inputs, *outputs)
    for i, out in enumerate(outputs):
        got = out.numpy()
        expected = operands.read(directory / EXPECTED.format(i), got.dtype.name)
        if not operands.same(got, expected):
            worst = float(np.nanmax(np.abs(got - expected), initial=np.nan))
            raise WrongResultError(f"output {i} differs by up to {worst:g}")


def save_expected(function: Any, tensors: Tensors, directory: Path) -> None:
    """Run ``function`` once and write its outputs to ``directory``."""
    inputs, outputs = tensors
    _blank(outputs)
    function(*inputs, *outputs)
    for i, out in enumerate(outputs):
        operands.write(directory / EXPECTED.format(i), out.numpy())


def _blank(outputs: list[Any]) -> None:
    """Fill outputs with what shows where nothing is written."""
    for out in outputs:
        out.copyfrom(np.full(out.shape, np.nan, str(out.dtype)))


@lru_cache(maxsize=1)
def _arguments(directory: str, device: str) -> Tensors:
    """Return inputs and outputs on the device; a worker measures one task at a time."""
    return upload(Path(directory), tvm.device(device))


def upload(directory: Path, device: Any) -> Tensors:
    """Return the saved inputs, and outputs to write to, as tensors of ``device``."""
    inputs, outputs = operands.load(directory)
    tensors = [tvm.runtime.tensor(array, device) for array in inputs]
    return tensors, [tvm.runtime.empty(shape, dtype, device) for shape, dtype in outputs]
