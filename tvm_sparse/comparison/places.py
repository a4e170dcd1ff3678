"""Where programs are compared: who is there besides us, what they are given, how they are timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.target import Target

from tvm_sparse.comparison import runtimes
from tvm_sparse.comparison.latency import Latency, calls_a_turn, race
from tvm_sparse.errors import InputError
from tvm_sparse_runtime.engine import DEVICE_TYPES

Programs = Mapping[str, Callable[[], Any]]
Progress = Callable[[str, int, int], None] | None


@dataclass(frozen=True)
class Place:
    """A device on which programs race.

    Parameters
    ----------
    runtimes
        How programs of others are made, and the packages that they need; by name.
    int8
        Names of those that round to bytes.
    put
        Returns inputs as programs there take them.
    ours
        Returns how a program of ours is timed there.
    times
        Times programs in so many turns; with them, the reason for each that has no honest time.
    exact
        What the race is held in, so that float32 is float32.
    """

    runtimes: Mapping[str, tuple[runtimes.Make, str]]
    int8: tuple[str, ...]
    put: Callable[[Sequence[np.ndarray]], list[Any]]
    ours: Callable[[Callable[[], Any]], Callable[[], Any]]
    times: Callable[[Programs, int, Progress], tuple[dict[str, Latency], dict[str, str]]]
    exact: Callable[[], AbstractContextManager[None]]


def place_of(target: Target, runs_here: bool, asked: str) -> Place:
    """Return where code for ``target`` is raced.

    Raises
    ------
    InputError
        It does not run on this machine; ``asked`` is what the user called it.
    """
    if not runs_here:
        found = f"code for '{asked}' does not run on this machine"
        raise InputError("--target", found, "this machine's CPU or GPU", "see tvm-sparse doctor")
    return _PLACES[target.get_target_device_type()]()


def _host() -> Place:
    def times(programs: Programs, rounds: int, progress: Progress) -> Any:
        first = next(iter(programs.values()))
        return race(programs, rounds, calls_a_turn(first), progress), {}

    return Place(
        runtimes.RUNTIMES, runtimes.INT8, list, lambda program: program, times, nullcontext
    )


def _gpu() -> Place:
    import torch

    if not torch.cuda.is_available():
        found = f"torch {torch.__version__} finds no GPU, so nothing can be compared with"
        raise InputError("--target", found, "PyTorch for CUDA", "see https://pytorch.org")
    from tvm_sparse.comparison import gpu_runtimes
    from tvm_sparse.comparison.gpu_device import Cuda
    from tvm_sparse.comparison.gpu_times import OwnGraphs
    from tvm_sparse.frontends.modules.effective import to_tensor

    return Place(
        gpu_runtimes.RUNTIMES,
        (),
        lambda inputs: [to_tensor(array).to(gpu_runtimes.GPU) for array in inputs],
        OwnGraphs,
        lambda programs, rounds, progress: timed_there(programs, rounds, Cuda()),
        gpu_runtimes.exact_products,
    )


def timed_there(programs: Programs, rounds: int, device: Any) -> Any:
    """Return what :attr:`Place.times` does, on a :class:`~.gpu_device.Device`."""
    from tvm_sparse.comparison.gpu_times import gpu_times

    found = gpu_times(programs, rounds, "clean", device)
    late = {name: str(t["contaminated"]) for name, t in found.items() if "contaminated" in t}
    timed = {
        name: Latency(t["median_us"], t["p99_us"], t["calls"])
        for name, t in found.items()
        if name not in late
    }
    return timed, late


_PLACES = {DEVICE_TYPES["cpu"]: _host, DEVICE_TYPES["cuda"]: _gpu}
