"""Records as lines: what they keep, and those that come with the package."""

from __future__ import annotations

import pytest

from tests.tuning.networks import mlp, tasks
from tvm_sparse.tuning.database import CONFIRMED_GAIN, Database
from tvm_sparse.tuning.record import Record, record_of
from tvm_sparse.tuning.recorded import SHIPPED, shipped_file


def test_a_record_names_the_default_that_it_compares_with():
    task = tasks(*mlp())[0]
    record = record_of(task.workload, task.space, task.space.default, seconds=3e-6)
    assert record.default == record.values == task.space.default.values
    assert record.ratio is None
    times = {"seconds": 3e-6, "default_seconds": 4e-6}
    assert record_of(task.workload, task.space, task.space.default, **times).ratio == pytest.approx(
        0.75
    )
    assert Record.model_validate_json(record.model_dump_json()) == record


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.jsonl")), ids=lambda path: path.stem)
def test_the_package_s_records_are_confirmed_gains_for_one_target(path):
    database = Database(path)
    assert len(database) == len(database.bests()) > 0
    assert database.skipped == 0
    for record in database:
        assert shipped_file(record.target) == path
        assert record.confirmed
        assert record.ratio < CONFIRMED_GAIN
        assert record.values != record.default
