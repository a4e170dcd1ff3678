"""The committed costs are what the committed times say, and the model is near them."""

import json
from dataclasses import asdict, replace

import pytest

from benchmarks.gpu import fit
from benchmarks.gpu.fit import Residuals, error
from benchmarks.gpu.timed import timed
from tvm_sparse.selection.cuda import chip as chips
from tvm_sparse.selection.cuda.demand import seconds

H200 = chips.load("h200")
FOUND = list(timed(H200))


def test_residuals():
    """Times of kernels that a GPU took: half of them within 1.15, nine of ten within 1.3."""
    found = Residuals.of([error(one, H200) for one in FOUND])
    assert found.count >= 170
    assert found.median <= 1.15
    assert found.p90 <= 1.3
    assert asdict(found) == chips.read("h200")["fit"]["residuals"]


@pytest.mark.slow
def test_the_fit_is_that_of_the_committed_times():
    """Costs that are written by hand, or of other times, are seen."""
    again = replace(H200, costs=fit.fit(FOUND, H200))
    assert Residuals.of([error(one, again) for one in FOUND]).median == pytest.approx(
        Residuals.of([error(one, H200) for one in FOUND]).median, rel=0.01
    )


def test_a_fit_finds_the_costs_that_made_the_times():
    true = replace(H200, costs=replace(H200.costs, step=500.0, launch=2.5e-6, chain=90.0))
    made = [replace(one, us=seconds(one.demand, true, written=one.written) * 1e6) for one in FOUND]
    found = fit.fit(made, H200)
    assert found.step == pytest.approx(500.0, rel=0.1)
    assert found.chain == pytest.approx(90.0, rel=0.1)
    assert found.launch == pytest.approx(2.5e-6, rel=0.1)


def test_a_chip_that_is_measured_gets_costs_of_its_own(tmp_path, monkeypatch):
    for name in ("h200", "h100"):
        (tmp_path / f"{name}.json").write_text(json.dumps(chips.read(name)))
    monkeypatch.setattr(chips, "PLACE", tmp_path)
    monkeypatch.setattr(fit, "fitted_library", lambda on: (asdict(on.library), [0.0]))
    monkeypatch.setattr(fit, "held_out", lambda found, on: [])
    chips.load.cache_clear()
    try:
        fit.write("h100", FOUND)
        found = chips.load("h100")
        assert found.measured and found.margin == chips.MARGINS[True]
        assert chips.read("h100")["fit"]["residuals"]["count"] == len(FOUND)
    finally:
        monkeypatch.undo()
        chips.load.cache_clear()
