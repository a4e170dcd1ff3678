"""Candidates that cannot win are left out with the reason; the dense one stays."""

from __future__ import annotations

import pytest

from tvm_sparse.selection.candidate import Candidate
from tvm_sparse.selection.shortlist import shortlist


def _candidate(name, cost, nest=""):
    return Candidate(name, None, None, cost, nest=nest)


@pytest.mark.parametrize(
    ("costs", "left"),
    [
        ({"dense": 1, "balanced": 0.5, "joint": 0.6, "unstructured": 0.62}, "unstructured"),
        ({"dense": 1, "balanced": 0.5, "joint": 0.7}, "joint"),
        ({"dense": 1, "winograd": 0.5, "balanced": 0.3}, ""),
        ({"dense": 1, "balanced": 1.2}, ""),
    ],
)
def test_two_near_formats_and_a_dense_way_stay(costs, left):
    kept, reasons = shortlist([_candidate(*pair) for pair in costs.items()], ["before"])
    names = {c.name for c in kept}
    dense = "winograd" if "winograd" in costs else "dense"
    assert names == costs.keys() - {left, "dense"} | {dense}
    best = min(costs, key=costs.__getitem__)
    assert reasons[0] == "before"
    assert len(reasons) == 1 + len(costs) - len(kept)
    if left:
        said = f"{left} is modelled {costs[left]:.2g} times the dense time, {best}"
        assert reasons[-1].startswith(said)


@pytest.mark.parametrize(("second", "kept"), [(0.54, True), (0.56, False)])
def test_of_one_loop_nest_only_near_ones_stay(second, kept):
    pair = [_candidate("unstructured", 0.5, "batch"), _candidate("block", second, "batch")]
    found, reasons = shortlist([_candidate("dense", 1.0), *pair], [])
    assert [c.name for c in found] == ["dense", "unstructured"] + ["block"] * kept
    assert len(reasons) == (not kept)


def test_what_one_loop_nest_leaves_out_makes_no_room_for_a_third():
    nest = [_candidate("unstructured", 0.5, "batch"), _candidate("block", 0.6, "batch")]
    found, _ = shortlist([_candidate("dense", 1.0), *nest, _candidate("joint", 0.62)], [])
    assert [c.name for c in found] == ["dense", "unstructured"]
