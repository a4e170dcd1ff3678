"""Build kernels, pack weights and compile networks beside the GPU's work, in the queue's order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import Any

from benchmarks.gpu import prepare
from benchmarks.gpu.prepare import Buildable

NICE = 10


class Background:
    """Processes that make what later pieces need; without ``workers`` it is made when asked for."""

    def __init__(self, target: str, *, workers: int, ptx: bool) -> None:
        self.target, self.ptx = target, ptx
        context = prepare.spawn()
        self._pool = ProcessPoolExecutor(workers, context, initializer=_calm) if workers else None
        self._kernels: dict[str, Future] = {}
        self.tasks: dict[str, Future] = {}

    def pack(self, kernels: Iterable[Buildable]) -> None:
        """Begin to build and pack ``kernels``, the first ones first."""
        for kernel in kernels if self._pool else ():
            place = kernel.place(self.target)
            built = all((place / part).exists() for part in ("arrays", prepare.code_of(self.ptx)))
            if kernel.name not in self._kernels and not built:
                made = self._pool.submit(prepare.build, kernel, self.target, place, ptx=self.ptx)
                self._kernels[kernel.name] = made

    def start(self, name: str, task: Callable[..., Any], *arguments: Any) -> None:
        """Begin ``task``; :attr:`tasks` has its future."""
        if self._pool and name not in self.tasks:
            self.tasks[name] = self._pool.submit(task, *arguments)

    def ready(self, name: str) -> bool:
        """Whether a task has ended, or was never begun: whoever needs it does it."""
        return name not in self.tasks or self.tasks[name].done()

    def finish(self) -> None:
        """Return when everything that was begun has ended."""
        wait([*self._kernels.values(), *self.tasks.values()])

    def wait_for(self, kernels: Iterable[Buildable]) -> None:
        """Return when ``kernels`` are built and packed; raise what kept one from it."""
        for kernel in kernels:
            if future := self._kernels.get(kernel.name):
                future.result()
            else:
                prepare.build(kernel, self.target, kernel.place(self.target), ptx=self.ptx)

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        if self._pool:
            for process in list(self._pool._processes.values()):
                process.terminate()
            self._pool.shutdown(wait=False, cancel_futures=True)


def _calm() -> None:
    """One thread a process, behind what is timed."""
    os.nice(NICE)
    os.environ.update(OMP_NUM_THREADS="1", TVM_NUM_THREADS="1", TVM_FFI_DISABLE_TORCH_C_DLPACK="1")
