"""Cases run in processes of their own, which may crash or hang without an end to the run."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from tests.suites.outcomes import CRASHED, Result

SECONDS = 120
"""How long one case may take."""


def cases(suite: str) -> list[str]:
    """Return the keys of all cases of the module ``suite``, which is imported elsewhere."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_cases, suite).result()


def results(
    suite: str, keys: Sequence[str], *, jobs: int = 1, seconds: float = SECONDS
) -> Iterator[Result]:
    """Yield the result of each case ``keys`` of the module ``suite``, in their order.

    The module has ``check(key)``, which returns a :class:`Result`, or ``None`` where there is no
    such case, and ``operator_of(key)``, which names its operator.
    """
    idle: SimpleQueue[_Worker] = SimpleQueue()
    workers = [_Worker(suite, seconds) for _ in range(jobs)]
    for worker in workers:
        idle.put(worker)

    def ask(key: str) -> Result | None:
        worker = idle.get()
        try:
            return worker.ask(key)
        finally:
            idle.put(worker)

    try:
        with ThreadPoolExecutor(jobs) as pool:
            yield from (result for result in pool.map(ask, keys) if result is not None)
    finally:
        for worker in workers:
            worker.stop()


class _Worker:
    """A process that is started when needed and started again after a crash."""

    def __init__(self, suite: str, seconds: float) -> None:
        self.suite, self.seconds = suite, seconds
        self.process: Any = None
        self.pipe: Any = None

    def ask(self, key: str) -> Result | None:
        """Return the result of one case."""
        if self.process is None:
            context = multiprocessing.get_context("spawn")
            self.pipe, other = context.Pipe()
            self.process = context.Process(target=_serve, args=(self.suite, other), daemon=True)
            self.process.start()
            other.close()
            self.pipe.recv()  # It is ready: importing does not count.
        try:
            self.pipe.send(key)
            if self.pipe.poll(self.seconds):
                return self.pipe.recv()
            reason = f"no result after {self.seconds} seconds"
        except (EOFError, OSError):
            self.process.join()
            reason = f"exit status {self.process.exitcode}"
        self.stop()
        return Result(key, importlib.import_module(self.suite).operator_of(key), CRASHED, reason)

    def stop(self) -> None:
        """End the process."""
        if self.process is not None:
            self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def _cases(suite: str) -> list[str]:
    return importlib.import_module(suite).cases()


def _serve(suite: str, pipe: Any) -> None:
    check = importlib.import_module(suite).check
    pipe.send(None)
    while True:
        pipe.send(check(pipe.recv()))
