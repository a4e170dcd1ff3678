"""The benchmark of the cost model: what counts as right, and that every layer is seen."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.cases.networks import prune_balanced
from benchmarks.cost_model import measured, right, row_of, summary
from tvm_sparse.selection import layer_times


def layer(costs, us):
    return {"name": "fc", "costs": costs, "us": us}


def test_a_choice_within_ten_percent_is_right():
    costs = {"dense": 1.0, "balanced": 0.5}
    assert right(layer(costs, {"dense": 10.0, "balanced": 10.9}))
    assert not right(layer(costs, {"dense": 10.0, "balanced": 11.1}))


def test_misses_are_named():
    good = layer({"dense": 1.0, "block": 2.0}, {"dense": 1.0, "block": 2.0})
    bad = layer({"dense": 1.0, "block": 2.0}, {"dense": 3.0, "block": 2.0})
    row = row_of("net", "75 %", [good, bad])
    assert (row["mean_loss"], row["missed"]) == (0.25, [bad])
    found = summary([row])
    assert (found["layers"], found["right"], found["share"]) == (2, 1, 0.5)
    assert found["missed"] == ["net 75 % fc: dense, best block (1.50x)"]
    assert summary([])["share"] is None


def test_every_candidate_has_a_cost_and_a_time(monkeypatch):
    monkeypatch.setattr(layer_times, "TINY", 0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).eval()
    prune_balanced(model, 2)
    found = measured(model, torch.zeros(4, 64), shipped=True)
    assert [x["name"] for x in found] == ["0", "2"]
    for one in found:
        assert one["costs"].keys() == one["us"].keys() >= {"dense", "balanced"}
        assert min(one["us"].values()) > 0
