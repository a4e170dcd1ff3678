"""Which format the chooser takes, from given times or from the cost model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.errors import InputError
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.patterns.scan import Scan
from tvm_sparse.selection import layer_times, measure
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.cpu.transpositions import BEFORE, BEHIND
from tvm_sparse.selection.decisions import Decisions
from tvm_sparse.selection.layer import Layer
from tvm_sparse.selection.measure import Measured
from tvm_sparse.selection.pick import pick
from tvm_sparse.selection.times import Times


def layer(zeros: float, name: str = "fc") -> Layer:
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((32, 64), dtype=np.float32)
    weight.reshape(-1)[: round(zeros * weight.size)] = 0
    return Layer(name, "linear", Contraction((4,), 64, 32), weight)


def balanced() -> Layer:
    weight = np.zeros((32, 64), np.float32)
    weight[:, ::8] = 1 + np.arange(32)[:, None]
    return Layer("fc", "linear", Contraction((64,), 64, 32), weight)


def chooser(**options: object) -> Chooser:
    config = ts.Config(**{"measure": False, **options})
    return Chooser(parse_target("cpu").target, config, Decisions())


@pytest.mark.parametrize(("gain", "chosen"), [(1.01, "dense"), (1.05, "balanced")])
def test_a_format_must_beat_dense_by_more_than_noise(monkeypatch, gain, chosen):
    def timed(functions, *_args, **_options):
        times = dict.fromkeys(functions, 200.0)
        return Measured(times | {"dense": 100.0, "balanced": 100.0 / gain})

    monkeypatch.setattr(layer_times, "measure", timed)
    one = chooser(measure=True, cache=False)
    assert one.choose(balanced()).candidate.name == chosen
    (decision,) = one.decisions
    assert (decision.dense_us, decision.sparse_us) == (100.0, 100.0 / gain)
    assert ("may be noise" in decision.reason) == (chosen == "dense")


def test_few_zeros_are_not_worth_a_format():
    one = chooser()
    assert one.choose(layer(0.02)).candidate.name == "dense"
    (decision,) = one.decisions
    assert "fewer than are worth a format" in decision.reason
    assert decision.sparsity == pytest.approx(0.02, abs=1e-3)


def test_few_zeros_are_stored_sparse_on_request():
    one = chooser(force={"fc": "balanced"})
    assert one.choose(layer(0.02)).candidate.name == "balanced"


def test_only_the_chosen_format_is_packed():
    packed = layer_times.Packed(
        balanced().weight, chooser()._candidates(balanced(), Scan(balanced().weight))[0]
    )
    assert not packed
    assert set(packed["balanced"]) == {"values", "indices"}
    assert list(packed) == ["balanced"]


def test_a_transposed_weight_is_packed_as_its_copy_is():
    straight = layer(0)
    turned = Layer("fc", "linear", straight.contraction, straight.weight.T.copy().T)
    assert not turned.weight.flags.c_contiguous
    for one in (straight, turned):
        one_arrays = chooser().choose(one).arrays
        assert (one_arrays["values"][1, :, 3] == straight.weight[19]).all()


def test_weights_that_are_not_finite_are_refused_with_their_place(monkeypatch):
    monkeypatch.setattr("tvm_sparse.formats.arrays.CHUNK_BYTES", 1024)
    broken = layer(0)
    broken.weight[21, 7] = np.nan
    with pytest.raises(InputError, match=r"weight\[21, 7\] is nan"):
        chooser().choose(broken)


def convolution(zeros: bool = False) -> Layer:
    weight = np.random.default_rng(0).standard_normal((32, 16, 3, 3), dtype=np.float32)
    weight[:, ::8] *= not zeros
    extents = ((3, 3), (1, 1), (1, 1), (10, 10))
    return Layer("conv", "conv2d", Contraction((1, 8, 8), 16, 32, *extents), weight)


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, "winograd"),
        ({"sparse": False}, "winograd"),
        ({"ignore": ("conv",)}, "winograd"),
        ({"force": {"conv": "winograd"}}, "winograd"),
        ({"force": {"conv": "dense"}}, "dense"),
    ],
    ids=str,
)
@pytest.mark.parametrize("zeros", [False, True])
def test_a_dense_convolution_takes_the_cheaper_sum(options, chosen, zeros):
    one = chooser(**options)
    assert one.choose(convolution(zeros)).candidate.name == chosen


@pytest.mark.parametrize(
    ("times", "chosen"),
    [
        ({"dense": 100, "winograd": 98}, "dense"),
        ({"dense": 100, "winograd": 90}, "winograd"),
        ({"dense": 100, "winograd": 90, "balanced": 88}, "winograd"),
        ({"dense": 100, "winograd": 98, "balanced": 90}, "balanced"),
        ({"balanced": 50}, "balanced"),
    ],
    ids=str,
)
def test_plainer_ways_are_left_for_more_than_noise(times, chosen):
    candidates = [Candidate(name, None, None, 1.0) for name in times]
    assert pick(candidates, times)[0].name == chosen


def test_winograd_s_time_is_a_dense_one(monkeypatch):
    monkeypatch.setattr(
        layer_times, "measure", lambda *_a, **_o: Measured(dense=100.0, winograd=50.0)
    )
    one = chooser(measure=True, cache=False)
    assert one.choose(convolution()).candidate.name == "winograd"
    (decision,) = one.decisions
    assert (decision.dense_us, decision.sparse_us) == (50.0, None)
    assert decision.reason == "no zeros; measured 50.0 us against dense 100.0 us"


def test_transpositions_count_where_neighbours_are_channels_first(monkeypatch):
    def timed(functions, data, *_args, **_options):
        assert {data(name).x.ndim for name in (BEFORE, BEHIND)} == {3}
        times = {"dense": 30.0, "unstructured": 40.0, BEFORE: 9.0, BEHIND: 8.0}
        return Measured({name: times.get(name, 200.0) for name in functions})

    monkeypatch.setattr(layer_times, "measure", timed)
    one = chooser(measure=True, cache=False)
    shape = (1, 28, 28), 32, 32, (3, 3), (1, 1), (1, 1)
    c = Contraction(*shape, (30, 30), depthwise=True)
    own = replace(c, padded=(28, 28), borders=(1, 1), depthwise=False, columns=1, groups=32)
    weight = np.where(np.arange(288) % 4, 0, 1).astype(np.float32).reshape(32, 1, 3, 3)
    chosen = one.choose(Layer("conv", "depthwise", c, weight, planes=own))
    assert chosen.candidate.planes == own
    (decision,) = one.decisions
    assert (decision.dense_us, decision.sparse_us) == (47.0, 40.0)
    assert "include transpositions" in decision.reason


def test_a_layer_that_winograd_does_not_fit_cannot_be_forced():
    with pytest.raises(InputError, match="does not fit 'winograd'"):
        chooser(force={"*": "winograd"}).choose(layer(0.5))


def test_layers_with_formats_alike_share_times(monkeypatch):
    measured = []

    def timed(functions, *_args, **_options):
        measured.append(sorted(functions))
        return Measured(dict.fromkeys(functions, 10.0))

    monkeypatch.setattr(layer_times, "measure", timed)
    one = chooser(measure=True, cache=False)
    rng = np.random.default_rng(0)
    for name, density in (("first", 0.1), ("second", 0.1), ("third", 0.2)):
        weight = rng.standard_normal((256, 256)).astype(np.float32)
        weight[rng.random((256, 256)) >= density] = 0
        one.choose(Layer(name, "linear", Contraction((64,), 256, 256), weight))
    first, second, third = one.decisions
    assert len(measured) == 2
    assert "times of 'first', whose formats are alike" in second.reason
    assert "times of" not in first.reason + third.reason


def test_times_taken_under_load_say_so_and_are_not_kept(monkeypatch, tmp_path):
    monkeypatch.setattr(layer_times, "Times", lambda: Times(tmp_path))
    monkeypatch.setattr(measure.time, "process_time", lambda: 0.0)
    one = chooser(measure=True)
    one.choose(balanced())
    (decision,) = one.decisions
    assert "measured while other programs ran" in decision.reason
    assert not list(tmp_path.rglob("times.jsonl"))


def test_a_tiny_layer_is_not_measured(monkeypatch):
    monkeypatch.setattr(layer_times, "measure", None)
    one = chooser(measure=True, cache=False)
    weight = layer(0.9).weight[:16]
    one.choose(Layer("fc", "linear", Contraction((1,), *weight.shape[::-1]), weight))
    (decision,) = one.decisions
    assert "not measured" in decision.reason
