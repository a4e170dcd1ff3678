"""A space: each schedule is a point of the variant that has its instructions."""

from __future__ import annotations

import pytest
import tvm
from tvm import s_tir, te

from tvm_sparse.tuning.space import Point, Space


@pytest.fixture
def space():
    x = te.placeholder((24,), "float32", "X")
    func = te.create_prim_func([x, te.compute((24,), lambda i: x[i] + 1, "Y")])
    return Space(func, None, tuple(tiled(func, ends) for ends in ((), ("unroll",), ("vectorize",))))


def tiled(func, ends):
    """Return a schedule with one decision; ``ends`` are what is done with the inner loop."""
    schedule = s_tir.Schedule(tvm.IRModule({"main": func}))
    (loop,) = schedule.get_loops(schedule.get_sblock("Y"))
    factors = schedule.sample_perfect_tile(loop, 2, 8, decision=[6, 4])
    *_, inner = schedule.split(loop, factors)
    for end in ends:
        getattr(schedule, end)(inner)
    return schedule


def test_a_point_names_the_variant_and_its_decisions(space):
    points = [space.point(variant) for variant in space.variants]
    assert points == [Point(number, ((6, 4),)) for number in range(3)]
    assert space.default == points[0]


def test_a_schedule_is_made_of_its_point(space):
    for point in (Point(1, ((3, 8),)), Point(2, ((24, 1),))):
        assert space.point(space.schedule(point)) == point
    assert space.schedule(Point(3, ((6, 4),))) is None
    assert space.schedule(Point(0, ())) is None
