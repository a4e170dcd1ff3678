"""The search: valid, new schedules, towards the faster ones; no intrinsics are parsed."""

from __future__ import annotations

import sys

import pytest

from tests.kernels import host
from tests.tuning.networks import linear, tasks, weights
from tvm_sparse.tuning.search import INTRINSICS, MutateCategorical, Search, cost_model
from tvm_sparse.tuning.space import Point


@pytest.fixture(scope="module")
def space():
    (task,) = tasks(lambda x: linear(x, weights(0), "a"), (24, 64))
    return task.space


def search(space, known=()):
    return Search(space, host(), cost_model(1, warmup=8), known, batch=8, population=16)


def time_of(point):
    return 1.0 + abs(point.values[0] - 8) + abs(point.values[1] - 2)


def test_proposals_are_new_and_feasible_points_of_the_space(space):
    found = search(space, [(space.default, 1.0)])
    seen = {space.default}
    for _ in range(3):
        schedules = found.propose()
        points = [space.point(schedule) for schedule in schedules]
        assert points
        assert not seen & set(points)
        assert all(space.schedule(point) is not None for point in points)
        assert all(space.rule.feasible(schedule) for schedule in schedules)
        seen.update(points)
        found.learn([(s, time_of(p)) for s, p in zip(schedules, points, strict=True)])
    assert min(map(time_of, seen)) < time_of(space.default)


def test_an_exhausted_space_proposes_nothing():
    (task,) = tasks(lambda x: linear(x, weights(0), "a"), (1, 64))
    found, every = search(task.space), []
    while schedules := found.propose():
        every += [task.space.point(schedule) for schedule in schedules]
        found.learn([(schedule, 1.0) for schedule in schedules])
    # Vectors 1, 2, 4; banks a step 1, 2, 4; blocks far and near: all ways to split what is left.
    assert len(every) == len(set(every))
    assert 15 <= len(every) <= 3 * (3 + 2 + 1)


def test_suggestions_come_first_unless_known(space):
    good = Point(0, (8, 2, 1, (1, 3), (2, 1)))
    found = search(space, [(space.default, 1.0)])
    found.suggest([space.default, good, Point(0, (7,))])
    assert [space.point(s) for s in found.propose()] == [good]


def test_failures_are_learnt_too(space):
    found = search(space)
    schedules = found.propose()
    found.learn([(s, None) for s in schedules])
    assert not {space.point(s) for s in found.propose()} & {space.point(s) for s in schedules}


def test_a_mutation_takes_another_option(space):
    import random

    mutate = MutateCategorical(random.Random(0))
    before = space.variants[0].trace
    for _ in range(10):
        after = mutate.apply(before)
        changed = [
            i for i in before.insts if i in before.decisions and i.kind.name == "SampleCategorical"
        ]
        options = [int(after.decisions[i]) != int(before.decisions[i]) for i in changed]
        assert options.count(True) == 1


def test_the_intrinsics_stay_unparsed(space):
    search(space)
    assert INTRINSICS not in sys.modules
