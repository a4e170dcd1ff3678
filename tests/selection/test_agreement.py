"""Which layers the cost model decides alone: those it was right about the likes of."""

from __future__ import annotations

import numpy as np
import pytest

import tvm_sparse as ts
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection import layer_times
from tvm_sparse.selection.agreement import ENOUGH, Agreement
from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.choose import Chooser
from tvm_sparse.selection.decisions import Decisions
from tvm_sparse.selection.layer import Layer
from tvm_sparse.selection.measure import Measured

SIZE = 1e6


def pair(cost: float) -> list[Candidate]:
    return [candidate("dense", 1.0), candidate("unstructured", cost)]


def candidate(name: str, cost: float) -> Candidate:
    return Candidate(name, format=None, func=None, work=cost)  # type: ignore[arg-type]


def seen(*errors: float) -> Agreement:
    """Return what is known after layers that took ``errors`` of the time that was modelled."""
    agreement = Agreement()
    for error in errors:
        agreement.add("kind", SIZE, pair(0.5), {"dense": 100.0, "unstructured": 50.0 * error})
    return agreement


@pytest.mark.parametrize(
    ("errors", "cost", "vouching"),
    [
        ((1.0,) * (ENOUGH - 1), 0.5, 0),  # too few
        ((1.0,) * ENOUGH, 0.5, ENOUGH),
        ((1.0, 0.9, 1.2, 1.1), 0.6, 4),
        ((1.0, 0.9, 1.6, 1.1), 0.6, 0),  # with the largest error no longer clear
        ((1.0,) * ENOUGH, 0.9, 0),
        ((1.0,) * ENOUGH, 1.3, ENOUGH),  # dense is clearly faster
        ((1.0, 1.0, 0.9), 1.3, 0),
    ],
)
def test_a_choice_is_clear_with_the_largest_error_too(errors, cost, vouching):
    assert seen(*errors).vouching("kind", SIZE, pair(cost)) == vouching


def test_others_do_not_vouch():
    agreement = seen(1.0, 1.0, 1.0)
    assert agreement.vouching("kind", SIZE, pair(0.5))
    assert not agreement.vouching("another kind", SIZE, pair(0.5))
    assert not agreement.vouching("kind", SIZE / 3, pair(0.5))
    others = [candidate("winograd", 1.0), candidate("unstructured", 0.5)]
    assert not agreement.vouching("kind", SIZE, others)
    assert not agreement.vouching("kind", SIZE, [*pair(0.5), candidate("joint", 0.9)])


def layers(count: int) -> list[Layer]:
    rng = np.random.default_rng(0)
    found = []
    for i in range(count):
        weight = rng.standard_normal((256, 256 + 64 * i), dtype=np.float32)
        weight[rng.random(weight.shape) < 0.9] = 0
        contraction = Contraction((64,), weight.shape[1], 256)
        found.append(Layer(f"fc{i}", "linear", contraction, weight))
    return found


@pytest.mark.parametrize(("loaded", "measured"), [(False, ENOUGH), (True, ENOUGH + 2)])
def test_the_chooser_stops_measuring_but_not_under_load(monkeypatch, loaded, measured):
    calls = []

    def timed(functions, *_args, **_options):
        calls.append(functions)
        times = Measured({name: 100.0 if name == "dense" else 10.0 for name in functions})
        times.loaded = loaded
        return times

    monkeypatch.setattr(layer_times, "measure", timed)
    config = ts.Config(measure=True, cache=False)
    chooser = Chooser(parse_target("cpu").target, config, Decisions())
    chosen = {chooser.choose(layer).candidate.name for layer in layers(ENOUGH + 2)}
    assert len(calls) == measured
    assert chosen == {"unstructured"}
    *_, last = chooser.decisions
    assert (last.dense_us is None) == (not loaded)
    assert ("right about 3 layers like it" in last.reason) == (not loaded)
