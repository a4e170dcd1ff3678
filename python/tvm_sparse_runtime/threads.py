"""Threads: by how many a call is shared, and calls in a process that forks."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import ExitStack
from typing import Any

from . import engine, host
from .errors import SparseRuntimeError, shown

_COUNT = "TVM_NUM_THREADS"

_MOST = 4096


class _State:
    """What this process has done about threads so far."""

    ours: str | None = None
    """The value of ``TVM_NUM_THREADS`` that we set ourselves; any other is the user's."""
    held = ExitStack()
    """Releases the locks that a thread holds while it forks."""


class _Calling(threading.local):
    count: int = 0
    """The threads that share this thread's last call; 0 is the process's own number."""


_calling = _Calling()

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_registering = threading.RLock()
"""Held while ``_locks`` changes, and by a thread that forks."""


def choose(wish: int | None, recorded: int | None) -> None:
    """Check the number of threads that a caller wishes; without one set that of the process.

    Parameters
    ----------
    wish
        What the caller asks for.
    recorded
        What the artifact asks for.

    Notes
    -----
    Without a wish the user's ``TVM_NUM_THREADS`` counts, then ``recorded`` (but no more than there
    are physical cores), then all physical cores of this process.

    Raises
    ------
    SparseRuntimeError
        If one of them is no such number.
    """
    if wish is not None:
        checked(wish)
    elif os.environ.get(_COUNT) == _State.ours or asked() is None:
        cores = host.physical_cores()
        _State.ours = os.environ[_COUNT] = str(min(recorded or cores, cores))


def checked(wish: int) -> int:
    """Return ``wish`` if so many threads may be asked for."""
    if not 1 <= wish <= _MOST:
        raise SparseRuntimeError("threads", shown(wish), f"1 to {_MOST}")
    return wish


def asked() -> int | None:
    """Return the number of threads that the user's ``TVM_NUM_THREADS`` asks for, if any.

    Raises
    ------
    SparseRuntimeError
        If it is no such number.
    """
    text = os.environ.get(_COUNT)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= _MOST):
        expected = f"a number of threads, 1 to {_MOST}"
        raise SparseRuntimeError(_COUNT, shown(text), expected, "set it to one, or unset it")
    return int(text)


def enter(count: int | None) -> None:
    """Note that a call of this thread follows, shared by ``count`` threads.

    None is the process's own number.
    """
    if (count or 0) != _calling.count:
        engine.function("tvm_sparse.use_threads")(count or 0)
        _calling.count = count or 0


def call_lock() -> Any:
    """Return a new lock to hold while a program runs: ``fork`` waits until it is free.

    A child would inherit a lock that another thread holds, and a program half-way through a call,
    for ever.
    """
    lock = threading.RLock()
    with _registering:
        _locks.add(lock)
    return lock


def _before_fork() -> None:
    with ExitStack() as stack:
        stack.enter_context(_registering)
        for lock in list(_locks):
            stack.enter_context(lock)
        _State.held = stack.pop_all()


def _after_fork() -> None:
    _State.held.close()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
