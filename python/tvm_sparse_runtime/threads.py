"""Threads: how many TVM starts, and what a forked process has of its parent's."""

from __future__ import annotations

import os
import threading
import weakref
from contextlib import ExitStack
from typing import Any

from . import engine, host
from .errors import SparseRuntimeError, shown

_COUNT, _BIND = "TVM_NUM_THREADS", "TVM_BIND_THREADS"

_MOST = 4096


class _State:
    """What this process has done about threads so far."""

    ours: str | None = None
    """The value of ``TVM_NUM_THREADS`` that we set ourselves; any other is the user's."""
    used = False
    """Whether a program has run, so that there may be a pool of threads."""
    lost = False
    """Whether this process was forked from one with a pool, whose threads are not here."""
    held = ExitStack()
    """Releases the locks that a thread holds while it forks."""


class _Calling(threading.local):
    count: int | None = None
    """The threads that this thread's last program was told to run with, if it was told."""


_calling = _Calling()

_locks: weakref.WeakSet[Any] = weakref.WeakSet()
_registering = threading.RLock()
"""Held while ``_locks`` changes, and by a thread that forks."""


def choose(wish: int | None, recorded: int | None) -> None:
    """Set the number of threads, before TVM's runtime library reads it.

    Parameters
    ----------
    wish
        What the caller asks for; also applied to the pool that this thread may have already.
    recorded
        What the artifact asks for.

    Notes
    -----
    Without a wish the user's ``TVM_NUM_THREADS`` counts, then ``recorded`` (but no more than there
    are physical cores), then all physical cores of this process. TVM makes one pool for each
    calling thread, on its first parallel region. ``TVM_BIND_THREADS=0``, unless set by the user,
    keeps TVM from changing the caller's CPU affinity.
    """
    os.environ.setdefault(_BIND, "0")
    if wish is None and os.environ.get(_COUNT) != _State.ours and asked() is not None:
        return
    if wish is not None and not 1 <= wish <= _MOST:
        raise SparseRuntimeError("threads", shown(wish), f"1 to {_MOST}")
    cores = host.physical_cores()
    count = wish or min(recorded or cores, cores)
    _State.ours = os.environ[_COUNT] = str(count)
    if wish is not None and _State.used:
        _resize_pool(wish)


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


def settle() -> None:
    """Tell TVM's runtime library the number of threads if nobody has.

    It would ask the system for it in each parallel region: 10 us. ``os.environ``, by which models
    are compiled, stays as it is.
    """
    os.environ.setdefault(_BIND, "0")
    if not any(map(os.environ.get, (_COUNT, "OMP_NUM_THREADS"))):
        os.putenv(_COUNT, str(host.physical_cores()))


def enter(count: int | None) -> None:
    """Note that a program runs in this thread, with ``count`` threads; None is the process's own.

    Raises
    ------
    SparseRuntimeError
        If this thread's pool was begun with fewer; or in a process that lost its threads by a
        fork, instead of waiting for ever for threads that exist in the parent only.
    """
    if _State.lost and os.environ.get(_COUNT) != "1":
        raise SparseRuntimeError(
            f"process {os.getpid()}",
            "forked from one that had already run a model, whose threads are not here",
            "the first call after the fork",
            "call the model only in the children, or start them with the method 'spawn'",
        )
    _State.used = True
    if count == _calling.count:
        return
    if count is None:
        own = asked() or host.physical_cores()
        engine.function("runtime.config_threadpool")(0, own)
    else:
        _resize_pool(count)
    _calling.count = count


def call_lock() -> Any:
    """Return a new lock to hold while a program runs: ``fork`` waits until it is free.

    A child would inherit a lock that another thread holds, and a program half-way through a call,
    for ever.
    """
    lock = threading.RLock()
    with _registering:
        _locks.add(lock)
    return lock


def _resize_pool(count: int) -> None:
    """Make the calling thread's pool use ``count`` threads; it can never grow."""
    current = engine.function("runtime.NumThreads")
    if current() != count:
        engine.function("runtime.config_threadpool")(0, count)
    if current() != count:
        raise SparseRuntimeError(
            "threads",
            f"{count}, but this thread has a pool of {current()} already",
            "a number set before the first call",
            "load with it first, set TVM_NUM_THREADS, or use a new process",
        )
    _calling.count = None


def _before_fork() -> None:
    with ExitStack() as stack:
        stack.enter_context(_registering)
        for lock in list(_locks):
            stack.enter_context(lock)
        _State.held = stack.pop_all()


def _after_fork() -> None:
    _State.held.close()


def _after_fork_in_child() -> None:
    _after_fork()
    _State.lost = _State.lost or _State.used


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)
