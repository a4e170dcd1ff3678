"""Worker processes that live as long as they behave: no crash, no time limit passed, no leak."""

from __future__ import annotations

import os
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from tvm_sparse.tuning.worker import READY

START_SECONDS = 120.0
"""Limit for a worker's imports; on a busy machine they take many seconds."""

SLICE_SECONDS = 1.0


@dataclass(frozen=True)
class Outcome:
    """What a call in a worker gave: ``value``, or ``error`` in words."""

    value: Any = None
    error: str | None = None


class Worker:
    """One process, started at the first call and again after it was stopped.

    Parameters
    ----------
    environment
        Variables of the process, on top of this one's.
    max_memory
        Bytes of peak memory after which the process is replaced.
    max_uses
        Calls after which it is replaced.
    """

    def __init__(self, environment: Mapping[str, str], max_memory: int, max_uses: int) -> None:
        self.environment, self.max_memory, self.max_uses = environment, max_memory, max_uses
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._uses = 0

    def call(self, function: Callable[..., Any], arguments: tuple, timeout: float) -> Outcome:
        """Return what ``function(*arguments)`` gives in the worker, within ``timeout`` seconds.

        ``function`` must be importable. A crash or a timeout ends the process and is an error.
        """
        try:
            connection = self._start()
            connection.send((function, arguments))
            if not _answers(connection, timeout):
                self.stop()
                return Outcome(error=f"no answer after {timeout:g} s")
            value, error, peak = connection.recv()
        except (EOFError, OSError):
            return Outcome(error=f"the worker died ({self.stop()})")
        self._uses += 1
        if peak > self.max_memory or self._uses >= self.max_uses:
            self.stop()
        return Outcome(value, error)

    def stop(self) -> str:
        """End the process, if any, and return how it ended."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is None:
            return "not started"
        try:
            # A crashed process is gone already; one that hangs will not go by itself.
            status = process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return "stopped"
        return f"signal {-status}" if status < 0 else f"status {status}"

    def _start(self) -> Connection:
        if self._connection is not None:
            return self._connection
        ours, theirs = Pipe()
        with theirs:
            command = [sys.executable, "-m", "tvm_sparse.tuning.worker", str(theirs.fileno())]
            self._process = subprocess.Popen(
                command,
                pass_fds=[theirs.fileno()],
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                # Ctrl-C in the terminal is for the parent, which then ends its workers.
                start_new_session=True,
            )
        self._connection, self._uses = ours, 0
        self.starts += 1
        if not _answers(ours, START_SECONDS) or ours.recv() != READY:
            raise EOFError
        return ours


def _answers(connection: Connection, timeout: float) -> bool:
    """Whether something comes within ``timeout`` seconds.

    In slices, because time for which the machine sleeps, or all of us are suspended, is no
    worker's fault.
    """
    left = timeout
    while left > 0:
        if connection.poll(min(left, SLICE_SECONDS)):
            return True
        left -= SLICE_SECONDS
    return connection.poll(0)


Itself = TypeVar("Itself", bound="Closing")


class Closing(ABC):
    """Closes itself at the end of a ``with`` block."""

    @abstractmethod
    def close(self) -> None:
        """End all processes."""

    def __enter__(self: Itself) -> Itself:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class WorkerPool(Closing):
    """Several workers that share a list of calls.

    Parameters
    ----------
    workers
        Number of processes.
    timeout
        Seconds that one call may take.
    environment, max_memory, max_uses
        See :class:`Worker`.
    """

    def __init__(
        self,
        workers: int,
        timeout: float,
        environment: Mapping[str, str] | None = None,
        max_memory: int = 2 << 30,
        max_uses: int = 2000,
    ) -> None:
        self.timeout = timeout
        self._all = [Worker(environment or {}, max_memory, max_uses) for _ in range(workers)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._all:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="tuning")

    @property
    def starts(self) -> int:
        """How many processes have been started."""
        return sum(worker.starts for worker in self._all)

    def map(self, function: Callable[..., Any], calls: Sequence[tuple]) -> list[Outcome]:
        """Return the outcome of ``function(*arguments)`` for each of ``calls``, in order."""
        return list(self._threads.map(lambda arguments: self._call(function, arguments), calls))

    def _call(self, function: Callable[..., Any], arguments: tuple) -> Outcome:
        worker = self._idle.get()
        try:
            return worker.call(function, arguments, self.timeout)
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End all processes; calls in progress become errors."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._all:
            worker.stop()
        self._threads.shutdown(wait=True)
