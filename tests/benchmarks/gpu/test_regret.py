"""What the chooser takes is near the best that was measured."""

from dataclasses import replace

import pytest

from benchmarks.gpu.regret import regrets, taken
from benchmarks.gpu.timed import timed
from tvm_sparse.selection.cuda.chip import load
from tvm_sparse.selection.cuda.demand import seconds

H200 = load("h200")
FOUND = list(timed(H200))

NEAR, MOST = 1.10, 1.27
"""Wanted for every case, and reached for all: see :data:`BEYOND`."""

BEYOND = {
    "333x1000, float32, N=1, balanced 75%",
    "8192x8192, float16, N=8, balanced 50%",
    "8192x8192, float16, N=4096, balanced 90%",
    "8192x8192, float16, N=4096, balanced 95%",
}
"""Gains that the model does not see, so that dense is taken.

Half a microsecond of a launch (4.7 us measured, dense 5.3). A dense kernel at 8 rows, 54.6 us
measured and 42.8 modelled, beside a stream, 43.2 and 49.9. Banks at 4096 rows, which the
model takes for slower than they are: at 90 % zeros 1822 us measured and 2100 modelled, at 95 % 1735
and 2044, our dense kernel 2153 and 2169. There the dense library is faster than either."""


def test_regret():
    found = list(regrets(H200, FOUND))
    assert len(found) >= 140
    late = {one.case: one.factor for one in found if one.factor > NEAR}
    assert set(late) <= BEYOND
    assert all(factor <= MOST for factor in late.values())
    assert all(one.taken == "dense" for one in found if one.case in late)


def test_a_wrong_model_is_seen():
    """The test is able to fail: with another chip's clocks the choices are others."""
    wrong = replace(H200, costs=replace(H200.costs, step=0.0, chain=0.0, bank=0.0))
    late = [one for one in regrets(wrong, FOUND) if one.factor > NEAR]
    assert len(late) > 2 * len(BEYOND)


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
