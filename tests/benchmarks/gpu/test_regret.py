"""What the chooser takes is near the best that was measured."""

import dataclasses
from dataclasses import replace

import pytest

from benchmarks.gpu.regret import regrets, taken
from benchmarks.gpu.timed import timed
from tvm_sparse.base.numerics import Numerics
from tvm_sparse.base.targets import parse_target
from tvm_sparse.ops.contractions.contraction import Contraction
from tvm_sparse.selection.cuda import options
from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.demand import seconds

H200 = load("h200")
FOUND = list(timed(H200))

NEAR, MOST = 1.10, 1.24
"""Wanted for every case, and reached for all: see :data:`BEYOND`."""

BEYOND = {"333x1000, float32, N=1, balanced 75%", "8192x8192, float16, N=64, 2:4 50%"}
"""Gains that the model does not see, so that what is dense is taken.

Half a microsecond of a launch (4.7 us measured, dense 5.3): the model is no better than that. And
2:4 in four parts, modelled 1.15 times slower than measured (39.4 us, 34.2), beside cuBLASLt with a
modelled kernel behind it (42.1)."""


def test_regret():
    found = list(regrets(H200, FOUND))
    assert len(found) >= 145
    assert sum("cublaslt" in one.times for one in found) >= 30
    late = {one.case: one.factor for one in found if one.factor > NEAR}
    assert set(late) <= BEYOND
    assert all(factor <= MOST for factor in late.values())
    assert all(one.taken in ("dense", "cublaslt") for one in found if one.case in late)


def test_libraries_take_turns_as_they_were_measured():
    """2:4 is ours for few rows, then dense and cuBLASLt's, then cuSPARSELt's."""
    taken = {
        int(one.case.split("N=")[1].split(",")[0]): one
        for one in regrets(H200, FOUND)
        if one.case.startswith("8192x8192, float16") and one.case.endswith("2:4 50%")
    }
    found = [taken[rows].taken for rows in (1, 32, 256, 4096)]
    assert found == ["two_four", "two_four", "cublaslt", "cusparselt"]
    assert all(taken[rows].factor == 1 for rows in (1, 32, 256, 4096))


def test_a_tile_of_more_rows_stands_for_fewer():
    """What the compiler takes for eight rows was timed at sixteen, what it took before at eight."""
    (one,) = (r for r in regrets(H200, FOUND) if r.case == "8192x8192, float16, N=8, balanced 50%")
    c = Contraction((8,), 8192, 8192, numerics=Numerics.uniform("float16"))
    tile = options.dense(c, parse_target("cuda:h200").target).tile
    (known,) = (t for t in FOUND if t.case == "8192x8192, float16, N=16, none")
    assert list(dataclasses.astuple(tile)) == known.record["tile"]
    assert one.times["dense"] == known.us


def test_a_wrong_model_is_seen():
    """The test is able to fail: with another chip's clocks the choices are others."""
    wrong = replace(H200, costs=replace(H200.costs, step=0.0, chain=0.0, bank=0.0))
    late = [one for one in regrets(wrong, FOUND) if one.factor > NEAR]
    assert len(late) > 3 * len(BEYOND)


@pytest.mark.parametrize(("us", "name"), [(9.2, "dense"), (9.0, "block")])
def test_ties_go_to_dense(us, name):
    assert taken({"dense": 10.0, "block": us}, H200) == name
    assert taken({"dense": 10.0, "block": us}, load("h100")) == "dense"


def test_parts_of_a_reduction_are_chosen_as_they_were_measured():
    lines = {}
    for one in timed(H200, ("mend_times",)):
        if one.case.startswith("split-K"):
            lines.setdefault(one.case, {})[one.kernel] = one
    assert len(lines) >= 6
    for case, ways in lines.items():
        best = min(one.us for one in ways.values())
        modelled = min(ways.values(), key=lambda one: seconds(one.demand, H200))
        assert modelled.us <= NEAR * best, case
