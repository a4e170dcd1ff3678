"""Run the steps in order, until the time is over: a piece that fails costs itself alone."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.gpu import device
from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.step import Piece, Plan, Row, Step
from benchmarks.gpu.queue.store import Store
from benchmarks.gpu.results import environment, tell
from tvm_sparse.comparison.gpu_times import reason

Clock = Callable[[], float]


class Queue:
    """A run of the queue.

    ``restart`` goes on in a fresh process; it is called where the GPU takes no more calls, and,
    from another thread, where a piece does not end.
    """

    def __init__(
        self,
        plan: Plan,
        steps: Sequence[Step],
        store: Store,
        background: Background,
        *,
        deadline: float,
        restart: Callable[[], None],
        clock: Clock = time.monotonic,
    ) -> None:
        self.plan, self.steps, self.store, self.background = plan, steps, store, background
        self.deadline, self.restart, self.clock = deadline, restart, clock
        self.skipped: dict[tuple[str, str], str] = {}
        self.kept: dict[str, int] = {}
        self.spent: dict[str, float] = {}
        self.over = False
        self._environment: Row = {}

    def run(self) -> None:
        """Give each step its minutes, then go through them again with what is left."""
        self._environment = environment()
        for whole in (False, True):
            for step in self.steps:
                begin = self.clock()
                end = self.deadline if whole else begin + 60 * step.minutes
                self._step(step, end)
                self.spent[step.name] = self.spent.get(step.name, 0.0) + self.clock() - begin
                if self.over:
                    return

    def _step(self, step: Step, end: float) -> None:
        kept = 0
        for piece in self._pieces(step):
            if piece.skip:
                self._skip(step, piece)
            elif self.store.state(step.name, piece):
                kept += 1
            elif self.clock() + piece.seconds > self.deadline:
                self.over = True
                tell(f"{step.name}: the minutes are over before '{piece.name}'")
                return
            elif self.clock() > end:
                return
            else:
                self._piece(step, piece)
        self.kept[step.name] = kept

    def _pieces(self, step: Step) -> Iterator[Piece]:
        """Yield the pieces of a step; one that cannot even be listed fails alone."""
        try:
            yield from step.pieces(self.plan)
        except Exception as error:
            listing = Piece("list of pieces", step.name, self.plan.key(), lambda: ())
            self.store.add(step.name, listing, self._environment, failed=reason(error))
            tell(f"{step.name}: {reason(error)}")

    def _skip(self, step: Step, piece: Piece) -> None:
        if (step.name, piece.name) not in self.skipped:
            self.skipped[step.name, piece.name] = piece.skip
            tell(f"{step.name}: {piece.name}: {piece.skip}: skipped")

    def _piece(self, step: Step, piece: Piece) -> None:
        """Run one piece and save its rows, or why there are none."""
        begin = self.clock()
        self.skipped.pop((step.name, piece.name), None)
        self.store.begin(step.name, piece, self._environment)
        try:
            self.background.wait_for(piece.needs)
            if piece.alone:
                self.background.finish()
            with self._watched(step, piece):
                rows = [dict(row) for row in piece.run()]
        # One failure must not take the machine's time from all that follows.
        except Exception as error:
            self._failed(step, piece, reason(error))
            if not device.current().works():
                self.restart()
            return
        self.store.add(step.name, piece, self._environment, rows=rows)
        tell(f"{step.name}: {piece.name} ({self.clock() - begin:.1f} s)")

    def _failed(self, step: Step, piece: Piece, why: str) -> None:
        self.store.add(step.name, piece, self._environment, failed=why)
        tell(f"{step.name}: {piece.name}: failed: {why}")

    @contextlib.contextmanager
    def _watched(self, step: Step, piece: Piece) -> Iterator[None]:
        """Give a piece up that does not end: a kernel that hangs, or a compiler."""

        def give_up() -> None:
            self._failed(step, piece, f"took over {piece.limit:g} s")
            self.restart()

        timer = threading.Timer(piece.limit, give_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
