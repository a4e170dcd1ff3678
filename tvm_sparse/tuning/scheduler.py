"""Which task to give the next trials: the one whose fraction of the model's time falls fastest."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_sparse.tuning.state import TaskState

ALPHA = 0.2
WINDOW = 3
"""Weight of the recent gain, and the batches that it is taken over (MetaSchedule's values)."""


def next_task(states: Iterable[TaskState], per_task: int | None = None) -> TaskState | None:
    """Return the task with the steepest expected gain; ``None`` when all have ended.

    Every task gets one batch before any gets a second. Then the gain of a batch is estimated from
    the recent gains and from the optimism that time falls as ``1 / batches``. This is equation 3 in
    section 6.2 of Zheng et al., OSDI 2020, as MetaSchedule simplifies it.
    """
    open_states = [s for s in states if not s.exhausted and not _spent(s, per_task)]
    fresh = [s for s in open_states if not s.batches]
    if fresh:
        return max(fresh, key=lambda s: s.seconds)
    return max(open_states, key=gain, default=None)


def gain(state: TaskState) -> float:
    """Return the seconds that the next batch is expected to save in one run of the model."""
    batches = state.batches
    before = batches[-1 - WINDOW] if len(batches) > WINDOW else 1.0
    recent = (before - batches[-1]) / min(len(batches), WINDOW)
    optimistic = batches[-1] / len(batches)
    return state.seconds * (ALPHA * recent + (1 - ALPHA) * optimistic)


def _spent(state: TaskState, per_task: int | None) -> bool:
    return per_task is not None and len(state.ratios) >= per_task
