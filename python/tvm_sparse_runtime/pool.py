"""A pool of sessions: calls of any threads, several of them side by side."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any

from . import host
from .errors import SparseRuntimeError, shown

if TYPE_CHECKING:
    from .session import Session

_MOST = 4096


class Pool:
    """Sessions of one program, lent to one call each; made by :meth:`.Session.pool`.

    A call waits while all sessions are at work. All share one copy of code and weights.

    Parameters
    ----------
    session
        Any session of the program; it is cloned, not used itself.
    sessions
        How many calls may run side by side.
    threads
        Threads that share a call; by default the physical cores of this process are shared out, at
        least one each.

    Raises
    ------
    SparseRuntimeError
        One of the numbers cannot be, or the session cannot be cloned.
    """

    def __init__(self, session: Session, sessions: int, threads: int | None = None) -> None:
        if not 1 <= sessions <= _MOST:
            raise SparseRuntimeError("sessions", shown(sessions), f"1 to {_MOST}")
        self.sessions = sessions
        self.threads = threads or max(1, host.physical_cores() // sessions)
        self._free: queue.LifoQueue[Session] = queue.LifoQueue()
        for _ in range(sessions):
            self._free.put(session.clone(threads=self.threads))

    def __call__(self, *values: Any, **named: Any) -> Any:
        """Run the program once, as a session does; wait while none is free."""
        session = self._free.get()  # the one used last: its memory is in the cache
        try:
            return session(*values, **named)
        finally:
            self._free.put(session)

    def __repr__(self) -> str:
        return f"Pool({self.sessions} sessions, {self.threads} threads a call)"
