"""The phases of a compilation, as callers are told of them."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator

from tvm_sparse.base.freed import give_back

Progress = Callable[[str, int, int], None]
"""Called as ``progress(phase, step, steps)`` when a phase begins (``step`` 0), after each of its
steps and when it ends (``step == steps``), one phase after another in the order of :data:`PHASES`.
"""

PHASES = ("importing", "folding", "choosing", "scheduling", "building")
"""``choosing``, by far the longest when layers are measured, has a step for each layer; the others
have one."""

_log = logging.getLogger(__name__)


class Phases:
    """Tells of the phases in order, and gives freed memory back after each."""

    def __init__(self, progress: Progress) -> None:
        self.progress, self.names = progress, iter(PHASES)
        self.name, self.done, self.steps = "", 0, 1

    @contextlib.contextmanager
    def next(self, steps: int = 1) -> Iterator[None]:
        """Tell that the next phase, of ``steps``, begins, and after the block that it is over."""
        self.name, self.done, self.steps = next(self.names), 0, max(1, steps)
        self.progress(self.name, 0, self.steps)
        start = time.perf_counter()
        yield
        give_back()
        _log.info("%s: %.1f s", self.name, time.perf_counter() - start)
        if self.done < self.steps:
            self.progress(self.name, self.steps, self.steps)

    def step(self) -> None:
        """Tell of one more step."""
        self.done += 1
        self.progress(self.name, self.done, self.steps)
