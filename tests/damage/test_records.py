"""Damaged tuning records are skipped, or offer a schedule of the space; nothing raises."""

from __future__ import annotations

import json
import random

import pytest

from tests.kernels import host
from tests.tuning.networks import mlp, tasks
from tvm_sparse.tuning.database import FILE, Database
from tvm_sparse.tuning.record import record_of
from tvm_sparse.tuning.space import Point

VALUES = [None, True, 0, 1, -1, 3, 7, 2**31, 2**63, 2**70, 10**400, 1.5, "", "x", [], [1], {}]
VALUES += [[0, 1], [1, 2**40], [2**70, 1], [[1]], list(range(1, 99))]


@pytest.fixture(scope="module")
def task():
    return tasks(*mlp())[0]


def edited(line: str, generator: random.Random) -> bytes:
    body = json.loads(line)
    for _ in range(generator.choice([1, 1, 2])):
        place, key = body, generator.choice(["values", "values", "variant", *body])
        if key == "values" and isinstance(body["values"], list) and body["values"]:
            place, key = body["values"], generator.randrange(len(body["values"]))
        place[key] = generator.choice(VALUES)
    text = bytearray(json.dumps(body).encode())
    if generator.random() < 0.2:
        text[generator.randrange(len(text))] ^= 1 << generator.randrange(7)
    return bytes(text).replace(b"\n", b" ")


def test_damaged_records(task, tmp_path):
    generator, point = random.Random(0), task.space.default
    sound = record_of(task.workload, task.space, point, seconds=5e-6, default_seconds=1e-5)
    line, offered, skipped = sound.model_dump_json(exclude_none=True), 0, 0
    for _ in range(300):
        (tmp_path / FILE).write_bytes(edited(line, generator) + b"\n")
        database = Database(tmp_path)
        skipped += database.skipped
        record = database.best(task.workload, task.space)
        schedule = task.space.schedule(record.point) if record else None
        if schedule is not None:
            offered += 1
            assert task.space.point(schedule) == record.point
        database.schedule(task.space.func, host())
    assert skipped > 100
    assert offered > 0


@pytest.mark.parametrize("value", [2**31, 2**63, 2**70, 10**400], ids=range(4))
def test_factors_beyond_all_integers(task, value):
    values = list(task.space.default.values)
    place = next(i for i, v in enumerate(values) if isinstance(v, tuple))
    values[place] = (value, *values[place][1:])
    assert task.space.schedule(Point(task.space.default.variant, tuple(values))) is None
