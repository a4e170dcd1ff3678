"""Other formats of a layer as tasks: the near ones, each once, with records that compile reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import tvm_sparse as ts
from tests.kernels import host, integers, keep_of_bank
from tests.tuning.fakes import FakeMeasurer
from tests.tuning.test_recorded import network
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.program.tune import tasks_of
from tvm_sparse.schedules.rule import first_schedule
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.selection.choose import Choice
from tvm_sparse.selection.layer import Layer
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.formats import format_tasks
from tvm_sparse.tuning.recorded import recorded_rules
from tvm_sparse.tuning.tuner import Settings, Tuner

CONTRACTION = Contraction((64,), 64, 256)
MATRIX = keep_of_bank(np.random.default_rng(0), CONTRACTION.matrix_shape, 4)
TIMES = {"balanced": 10.0, "unstructured": 12.0, "block": 14.0, "dense": 50.0}


def candidates():
    found = sparse_candidates(CONTRACTION, Scan(MATRIX), host())
    return {c.name: c for c in found if not isinstance(c, str)}


def choice(name="fc", contraction=CONTRACTION, **times):
    chosen = candidates()["balanced"]
    layer = Layer(name, "linear", contraction, MATRIX)
    return layer, Choice(chosen, chosen.format.encode(MATRIX), {**TIMES, **times})


def names(choices, config=None):
    return [t.name for t in format_tasks(choices, host(), config or ts.Config())]


def test_formats_near_to_the_chosen_one_are_tasks():
    assert names([choice()]) == ["fc as unstructured"]
    assert names([choice(block=13.0)]) == ["fc as block", "fc as unstructured"]
    assert names([choice(unstructured=14.0)]) == []


@pytest.mark.parametrize(
    ("contraction", "config"),
    [
        (CONTRACTION, ts.Config(force={"fc": "balanced"})),
        (CONTRACTION, ts.Config(sparse=False)),
        (replace(CONTRACTION, lead=("n",)), ts.Config()),
    ],
)
def test_a_layer_that_has_no_choice_has_none(contraction, config):
    assert names([choice(contraction=contraction)], config) == []


@pytest.mark.parametrize("chosen", ["cublaslt", "cusparselt"])
def test_a_layer_that_a_library_computes_is_compared_with_ours(chosen):
    """What is tuned is our own: formats near to the library's modelled time."""
    on, half = parse_target("cuda:sm_90").target, Numerics.uniform("float16")
    c = Contraction((4096,), 2048, 2048, numerics=half)
    weight = keep_of_bank(np.random.default_rng(0), c.matrix_shape, 2).astype("float16")
    layer = Layer("fc", "linear", c, weight)
    every = [*dense_candidates(c, on), *sparse_candidates(c, Scan(weight), on)]
    (found,) = (one for one in every if not isinstance(one, str) and one.name == chosen)
    taken = [(layer, Choice(found, {}))]
    assert not {t.name for t in format_tasks(taken, on, ts.Config())} & {"fc as cublaslt"}


def test_equal_layers_are_one_task_with_valid_arguments():
    (task,) = format_tasks([choice("a"), choice("b")], host(), ts.Config())
    assert (task.layers, task.calls, task.instead_of) == (("a", "b"), 2, "balanced")
    assert len(task.func.params) == 1 + len(task.fixed) + task.outputs
    stored = candidates()["unstructured"].format.encode(MATRIX).values()
    assert all((task.fixed[i] == array).all() for i, array in enumerate(stored, start=1))


class Slow(FakeMeasurer):
    """The last decision decides, the default's is the slowest."""

    def ratio(self, values, default):
        return 1.0 if values == default else 0.5


def test_compile_measures_a_format_as_its_record_says(tmp_path):
    tasks = format_tasks([choice()], host(), ts.Config())
    database = Database(tmp_path)
    Tuner(Slow(host()), database, Settings(trials=4, batch=3, population=8)).run(tasks)
    func = candidates()["unstructured"].func
    schedule, rule = first_schedule(func, host(), recorded_rules(host(), database))
    assert rule == "Tuned"
    point = tasks[0].space.point(schedule)
    assert point != tasks[0].space.default
    assert point in {r.point for r in database if r.confirmed}


def test_the_model_s_own_tasks_come_first(monkeypatch):
    monkeypatch.setattr("tvm_sparse.tuning.formats.WITHIN", 1e9)
    x = torch.from_numpy(integers(np.random.default_rng(5), (8, 64)))
    place = ts.load(network(0), (x,)), parse_target("cpu"), ts.Config(measure=False), (), {}
    own = [t.workload for t in tasks_of(*place)]
    every = tasks_of(*place, formats=True)
    assert [t.workload for t in every][: len(own)] == own
    assert all(t.instead_of for t in every[len(own) :])
    assert len(every) > len(own)
    assert len({t.name for t in every}) == len(every)
