"""Times on disk: what is kept, what is skipped, and that the chooser asks it first."""

from __future__ import annotations

import json

import pytest
import torch
import tvm
from torch import nn

import tvm_sparse as ts
from benchmarks.cases.networks import prune_balanced
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.schedules.build import scheduled
from tvm_sparse.selection import layer_times, measure
from tvm_sparse.selection.candidates import dense_candidate
from tvm_sparse.selection.times import FILE, Times, key_of

TARGET = parse_target("cpu").target
NAMES = {"dense", "balanced"}
FIRST = {"dense": 2.0, "balanced": 1.0}


def test_another_process_reads_what_one_wrote(tmp_path):
    Times(tmp_path).put("a", FIRST)
    Times(tmp_path).put("b", {"dense": 3.0})
    again = Times(tmp_path)
    assert again.get("a", NAMES) == FIRST
    assert again.get("a", {"dense"}) is None
    assert again.get("c", NAMES) is None


def test_the_last_time_counts(tmp_path):
    Times(tmp_path).put("a", FIRST)
    Times(tmp_path).put("a", {"dense": 5.0, "balanced": 4.0})
    assert Times(tmp_path).get("a", NAMES) == {"dense": 5.0, "balanced": 4.0}


@pytest.mark.parametrize(
    "line",
    [
        "",
        '{"key": "a", "ti',
        "[1]",
        '{"key": "a"}',
        '{"key": "a", "times": [1]}',
        '{"key": "a", "times": {"dense": -1, "balanced": 1}}',
        '{"key": "a", "times": {"dense": NaN, "balanced": 1}}',
        '{"key": "a", "times": {"dense": "fast", "balanced": 1}}',
    ],
)
def test_lines_that_are_no_records_are_skipped(tmp_path, line):
    Times(tmp_path).put("a", FIRST)
    with (tmp_path / FILE).open("a") as file:
        file.write(line + "\n")
    Times(tmp_path).put("b", FIRST)
    again = Times(tmp_path)
    assert again.get("a", NAMES) == again.get("b", NAMES) == FIRST


def test_without_a_place_to_write_times_are_kept_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    times = Times(tmp_path / "file" / "inside")
    times.put("a", FIRST)
    assert times.get("a", NAMES) == FIRST


def test_the_key_tells_code_and_threads_apart(monkeypatch):
    target = parse_target("cpu").target

    def key(features: int) -> str:
        func = dense_candidate(Contraction((4,), 32, features), target).func
        return key_of({"dense": scheduled(func, target)["main"]}, target)

    monkeypatch.setenv("TVM_NUM_THREADS", "1")
    assert key(16) == key(16) != key(32)
    one = key(16)
    monkeypatch.setenv("TVM_NUM_THREADS", "2")
    assert key(16) != one


def test_the_chooser_measures_once(tmp_path, monkeypatch):
    model = nn.Sequential(nn.Linear(64, 64)).eval()
    prune_balanced(model, 4)
    built = []
    original = measure.build_scheduled

    def build(*args):
        built.append(args)
        return original(*args)

    monkeypatch.setattr(measure, "build_scheduled", build)
    monkeypatch.setattr(measure, "BUSY", 0.0)  # other tests run meanwhile
    monkeypatch.setattr(layer_times, "Times", lambda: Times(tmp_path))

    def decision(**options):
        built.clear()
        library = ts.compile(model, (torch.randn(32, 64),), config=ts.Config(**options))
        return library.decisions.records[0]

    first = decision()
    assert built
    assert json.loads((tmp_path / FILE).read_text().splitlines()[0])["times"]
    second = decision()
    assert not built
    assert (second.chosen, second.reason) == (first.chosen, first.reason)
    decision(cache=False)
    assert built


@pytest.mark.parametrize(
    "settings",
    [{"opt_level": 1}, {"disabled_pass": ["A"]}, {"config": {"tirx.disable_vectorize": True}}],
    ids=str,
)
def test_a_caller_s_pass_context_has_times_of_its_own(settings):
    """What is compiled with other settings is other code, which the functions do not show."""
    plain = key_of({}, TARGET)
    with tvm.transform.PassContext(instruments=[]):
        assert key_of({}, TARGET) == plain
    with tvm.transform.PassContext(**settings):
        assert key_of({}, TARGET) != plain
    assert key_of({}, TARGET) == plain
