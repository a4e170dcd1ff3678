"""Which task comes next: all once, then where the model's time falls fastest."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tvm_sparse.tuning.scheduler import gain, next_task
from tvm_sparse.tuning.state import TaskState


def state(name, *batches, calls=1, seconds=1.0, trials=16, exhausted=False):
    task = SimpleNamespace(name=name, calls=calls)
    made = TaskState(task, None, seconds, None, exhausted=exhausted)
    made.ratios, made.batches = [1.0] * trials, list(batches)
    return made


def chosen(*states, **options):
    found = next_task(states, **options)
    return found and found.task.name


def test_every_task_gets_one_batch_first():
    assert chosen(state("a", 0.1, calls=100), state("b"), state("c", calls=3)) == "c"


def test_calls_and_time_weigh():
    assert chosen(state("a", 0.9), state("b", 0.9, calls=2)) == "b"
    assert chosen(state("a", 0.9, seconds=3), state("b", 0.9, calls=2)) == "a"


def test_recent_gains_attract():
    flat = state("a", 0.7, 0.7, 0.7, 0.7)
    falling = state("b", 0.9, 0.9, 0.8, 0.7)
    assert chosen(flat, falling) == "b"


def test_the_gain_is_metaschedule_s():
    one = state("a", 0.9, 0.8, 0.7, 0.6, 0.5, calls=2, seconds=3.0)
    expected = 6.0 * (0.2 * (0.8 - 0.5) / 3 + 0.8 * 0.5 / 5)
    assert gain(one) == pytest.approx(expected)


@pytest.mark.parametrize("ended", [{"exhausted": True}, {"trials": 64}])
def test_tasks_that_ended_are_left_out(ended):
    assert chosen(state("a", 0.5, calls=9, **ended), state("b", 0.9), per_task=64) == "b"
    assert chosen(state("a", 0.5, **ended), per_task=64) is None
