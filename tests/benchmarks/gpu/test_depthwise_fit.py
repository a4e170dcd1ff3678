"""Costs of depthwise kernels and fused pairs follow from their times."""

from dataclasses import replace

import pytest

from benchmarks.gpu import depthwise_fit
from benchmarks.gpu.depthwise_fit import error, fit_depthwise, timed
from tvm_sparse.selection.cuda.chip import load

H200 = load("h200")
FOUND = list(timed(H200))


def test_half_of_the_times_are_near():
    """A pair whose SMs wait is off by up to 2.3: it has two phases that the model adds up."""
    errors = sorted(abs(error(one, H200)) for one in FOUND)
    assert len(errors) == 66
    assert errors[len(errors) // 2] < 0.11
    assert errors[len(errors) * 9 // 10] < 0.56


def test_a_fit_finds_the_costs_that_made_the_times(monkeypatch):
    true = replace(H200, costs=replace(H200.costs, strip=1.5, taps=2.5, begin=2000.0, pair=4.0))
    made = [replace(one, us=one.seconds(true) * 1e6) for one in FOUND]
    monkeypatch.setattr(depthwise_fit, "timed", lambda on: made)
    found = fit_depthwise(H200)
    assert found.strip == pytest.approx(1.5, rel=0.05)
    assert found.taps == pytest.approx(2.5, rel=0.05)
    assert found.begin == pytest.approx(2000.0, rel=0.1)
    assert found.pair == pytest.approx(4.0, rel=0.05)
    assert found.step == H200.costs.step


def test_without_times_nothing_changes(monkeypatch):
    monkeypatch.setattr(depthwise_fit, "timed", lambda on: [])
    assert fit_depthwise(H200) == H200.costs
