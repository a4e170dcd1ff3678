"""A device that is there, and what the queue's tests make with it."""

from benchmarks.gpu.queue.background import Background
from benchmarks.gpu.queue.run import Queue
from benchmarks.gpu.queue.step import Piece, Plan, Step
from benchmarks.gpu.queue.store import Store


class Chip:
    """Takes calls until :attr:`broken`."""

    ptx = False

    def __init__(self):
        self.broken = False

    def about(self):
        return {"gpu": "NVIDIA A1", "clocks.sm": "1 MHz"}

    def works(self):
        return not self.broken


class Clock:
    """Seconds that pass when somebody says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def spend(self, seconds):
        self.now += seconds


def piece(name, run=lambda: [{"case": "c"}], key="k", **more):
    return Piece(name, "grid", key, run, **{"seconds": 1.0} | more)


def step(name, *pieces, minutes=10.0):
    return Step(name, minutes, "runs", "decides", lambda plan: pieces)


def queue(folder, *steps, session="s", minutes=60.0, clock=None, earlier=(), restart=None):
    """A queue that was run; ``restart`` is what it does when the GPU is lost."""
    clock = clock or Clock()
    found = Queue(
        Plan(small=True),
        steps,
        Store(folder, session, earlier),
        Background("cuda:sm_90", workers=0, ptx=False),
        deadline=clock() + 60 * minutes,
        restart=restart or (lambda: None),
        clock=clock,
    )
    found.run()
    return found
