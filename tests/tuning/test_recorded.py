"""Records at compile time: applied where they fit, named in the decisions, harmless otherwise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import tvm_sparse as ts
from tests.kernels import host, integers
from tvm_sparse.base.targets import parse_target
from tvm_sparse.formats.balanced import BalancedFormat
from tvm_sparse.ops.contractions.balanced import balanced
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.program.tune import tasks_of
from tvm_sparse.schedules.rule import first_schedule
from tvm_sparse.selection.decisions import Decision
from tvm_sparse.tuning import recorded
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.record import record_of
from tvm_sparse.tuning.space import Point

CONFIG = ts.Config(measure=False, force={"*": "balanced"})
X = torch.from_numpy(integers(np.random.default_rng(5), (8, 64)))


def network(seed):
    """Return two pruned layers; another seed is another mask of the same pattern."""
    rng = np.random.default_rng(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32)).eval()
    with torch.no_grad():
        for layer in (model[0], model[2]):
            kept = rng.random((layer.out_features, layer.in_features // 16, 16)).argsort(-1) < 4
            weight = integers(rng, tuple(layer.weight.shape)) * kept.reshape(layer.weight.shape)
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.zero_()
    return model


@pytest.fixture(scope="module")
def models():
    return [ts.load(network(seed), (X,)) for seed in (0, 1)]


@pytest.fixture(scope="module")
def tasks(models):
    return tasks_of(models[0], parse_target("cpu"), CONFIG, (), {})


@pytest.fixture
def database(tasks, tmp_path):
    """Hold one faster schedule for the first layer only."""
    (first,) = (t for t in tasks if t.layers == ("0",))
    point = Point(0, (1, 3, 1, (1, 8), (1, 1)))
    assert first.space.schedule(point) is not None
    database = Database(tmp_path / "records")
    faster = record_of(first.workload, first.space, point, seconds=5e-6, default_seconds=1e-5)
    database.add([faster])
    return database


def compiled(model, path, **changes):
    library = ts.compile(model, config=replace(CONFIG, **changes), database=path)
    return library, {d.layer: d.schedule for d in library.decisions}


def test_records_are_used_and_named(models, database):
    library, schedules = compiled(models[0], database.path)
    assert schedules == {"0": "tuned", "2": "default"}
    assert (library(X).numpy() == network(0)(X).detach().numpy()).all()


def test_a_re_pruned_model_uses_every_record(models, database):
    library, schedules = compiled(models[1], database.path)
    assert schedules["0"] == "tuned"
    assert (library(X).numpy() == network(1)(X).detach().numpy()).all()


def test_records_can_be_left_out(models, database):
    _, schedules = compiled(models[0], database.path, tuned=False)
    assert set(schedules.values()) == {"default"}


def test_the_user_s_own_records_are_found_without_asking(models, database, monkeypatch):
    monkeypatch.setattr(recorded, "default_path", lambda: database.path)
    _, schedules = compiled(models[0], None)
    assert schedules["0"] == "tuned"


def test_records_of_the_package_are_used_last(models, database, tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "SHIPPED", tmp_path)
    Database(recorded.shipped_path(host())).add(list(database))
    recorded._shipped.cache_clear()
    assert compiled(models[0], tmp_path / "none")[1]["0"] == "shipped record"
    assert compiled(models[0], database.path)[1]["0"] == "tuned"
    slower = [r.model_copy(update={"microseconds": r.default_microseconds}) for r in database]
    Database(tmp_path / "tried").add(slower)
    tried = compiled(models[0], tmp_path / "tried")[1]["0"]
    assert tried == "default", "measured here, and nothing was faster"
    recorded._shipped.cache_clear()


def test_the_file_of_a_target_has_a_plain_name(monkeypatch):
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    name = recorded.shipped_path(host()).name
    assert name.startswith("llvm-")
    assert name.endswith("-2-threads.jsonl")


def test_a_damaged_database_is_as_good_as_none(models, tmp_path):
    (tmp_path / "records.jsonl").write_text("no json\n" * 5, encoding="utf-8")
    assert set(compiled(models[0], tmp_path)[1].values()) == {"default"}


def test_a_record_leaves_nothing_to_tune(tasks, database):
    (task,) = (t for t in tasks if t.layers == ("0",))
    rule = recorded.Tuned(database)
    assert rule.apply(task.func, host(), tunable=True) is None
    assert first_schedule(task.func, host(), (rule,))[1] == "Tuned"


def test_candidates_are_measured_with_their_records(models, database, monkeypatch):
    from tvm_sparse.selection import layer_times, measure

    monkeypatch.setattr(layer_times, "TINY", 0)
    seen = []
    schedule = measure.scheduled

    def spy(func, target, first):
        seen.append(first)
        return schedule(func, target, first)

    monkeypatch.setattr(measure, "scheduled", spy)
    ts.compile(models[0], config=ts.Config(cache=False), database=database.path)
    assert seen
    assert all(isinstance(first[0], recorded.Tuned) for first in seen)


def test_layers_without_a_record_keep_their_origin():
    decisions = [Decision(n, "linear", (1, 1), 0.5, "", "dense", "") for n in "abc"]
    recorded.origins(decisions, {"a": "Shipped", "b": "Contraction"})
    assert [d.schedule for d in decisions] == ["shipped record", "default", "default"]


def test_records_of_the_package_still_match(monkeypatch):
    """A layer of a benchmark's network, tuned by an earlier version: decisions, not code."""
    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    target = host("znver4")
    layer = Contraction((1, 1), 1024, 4096)
    func = balanced(layer, BalancedFormat(4096, 1024, 2), target)
    assert recorded.shipped(target).schedule(func, target) is not None
    other = balanced(layer, BalancedFormat(4096, 1024, 3), target)
    assert recorded.shipped(target).schedule(other, target) is None


def test_a_search_is_shown_of_a_layer_that_writes_the_next_ones_borders(tmp_path):
    layers = nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1)
    model = ts.load(nn.Sequential(*layers).eval(), (torch.randn(1, 16, 8, 8),))
    config = ts.Config(measure=False)
    (first,) = (t for t in tasks_of(model, parse_target("cpu"), config, (), {}) if "0" in t.layers)
    times = [{"seconds": s, "default_seconds": 1e-5} for s in (1e-5, 5e-6)]
    database = Database(tmp_path / "records")
    database.add([record_of(first.workload, first.space, first.space.default, **t) for t in times])
    library = ts.compile(model, config=config, database=database.path)
    (found,) = library.decisions.histories
    assert found.function == f"{first.name}_bordered"
    assert found.curve == pytest.approx((10.0, 5.0))
