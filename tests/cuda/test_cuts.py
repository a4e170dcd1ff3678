"""The parts of a reduction are tuned: tasks of other cuts, whose records compile goes by."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from tvm import tirx

import tvm_sparse as ts
from tests.cuda.kernels import executed, needs_nvrtc, scheduled, target
from tests.cuda.test_tile import RULES
from tests.kernels import integers, keep_of_bank
from tests.tuning.fakes import FakeMeasurer
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction, reference
from tvm_sparse.ops.cuda.multiply import Scalar
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.program.tune import tasks_of
from tvm_sparse.selection.candidates import dense_candidates, sparse_candidates
from tvm_sparse.tuning.database import Database
from tvm_sparse.tuning.record import record_of
from tvm_sparse.tuning.tuner import Settings, Tuner

LONG = Contraction((16,), 2048, 128)
WIDE = Contraction((8,), 8192, 64, numerics=Numerics.uniform("float16"))
MATRICES = {c: keep_of_bank(np.random.default_rng(0), c.matrix_shape, 8) for c in (LONG, WIDE)}


def candidate(c, name, like=None):
    matrix = MATRICES[like or c]
    found = (*dense_candidates(c, target()), *sparse_candidates(c, Scan(matrix), target()))
    return next(one for one in found if not isinstance(one, str) and one.name == name)


@pytest.mark.parametrize(
    ("c", "name"), [(LONG, "dense"), (LONG, "balanced"), (LONG, "block"), (WIDE, "balanced")]
)
def test_each_cut_is_a_way_once(c, name):
    one = candidate(c, name)
    ways = one.ways()
    parts = [one.parts, *(way.parts for way in ways)]
    assert len(parts) == len(set(parts)) >= 3
    assert 1 in parts
    assert {way.name for way in ways} == {name}
    assert [way.seconds for way in ways] == sorted(way.seconds for way in ways)
    assert {way.parts for way in ways[0].ways()} == {*parts} - {ways[0].parts}


def test_what_cannot_be_cut_has_no_other_way():
    for lead in (tirx.Var("n", "int64"), 1):
        assert candidate(dataclasses.replace(LONG, lead=(lead,)), "dense", LONG).ways() == []


@needs_nvrtc
def test_ways_compute_the_same(emulator):
    one, x = candidate(LONG, "balanced"), integers(np.random.default_rng(1), LONG.input_shape)
    for way in (one, *one.ways()[:2]):
        func = scheduled(way.func, RULES[Scalar]())
        arrays = [x, *way.format.encode(MATRICES[LONG]).values()]
        found = executed(emulator, func, arrays, LONG.output_shape)
        np.testing.assert_array_equal(found, reference(LONG, x, MATRICES[LONG]))


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2048, 128), torch.nn.ReLU())


def tasks():
    place = ts.load(network(), (torch.zeros(16, 2048),)), parse_target("cuda:sm_90")
    return tasks_of(*place, ts.Config(measure=False), (), {})


class Cuts(FakeMeasurer):
    """The default schedule is the best of each task."""

    def ratio(self, values, default):
        return 1.0 if values == default else 2.0


def test_tuning_has_a_task_for_each_cut():
    own, *cuts = tasks()
    assert not own.instead_of
    assert len({task.name for task in cuts}) == len(cuts) >= 2
    assert all(task.instead_of == "dense" and task.name.startswith("0 in ") for task in cuts)


def compiled(database):
    options = {"target": "cuda:sm_90", "config": ts.Config(measure=False), "database": database}
    (decision,) = ts.compile(network(), (torch.zeros(16, 2048),), **options).decisions
    return decision.reason


@needs_nvrtc
@pytest.mark.parametrize("source", ["measured", "modelled"])
def test_compile_takes_the_cut_with_the_shortest_time(source, tmp_path):
    _, chosen, *others = tasks()
    database = Database(tmp_path)

    def add(task, seconds):
        times = {"seconds": seconds, "default_seconds": seconds, "source": source}
        database.add([record_of(task.workload, task.space, task.space.default, **times)])

    for task in others:
        add(task, 4e-6)
    assert "parts by" not in compiled(tmp_path)  # its own time is not known
    add(chosen, 4.1e-6)
    assert "parts by" not in compiled(tmp_path)  # less may be noise
    add(others[-1], 2e-6)
    parts = others[-1].name.split()[2]
    assert f"reduced in {parts} parts by a {source} record: 3.0 us, 4.1 us" in compiled(tmp_path)


def test_a_session_keeps_the_times_of_cuts(tmp_path):
    database = Database(tmp_path)
    found = tasks()[1:]
    Tuner(Cuts(target()), database, Settings(trials=12, batch=2, population=4)).run(found)
    assert all(database.seconds(task.func, target()) for task in found)
