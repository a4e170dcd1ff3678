"""Costs as records."""

from __future__ import annotations

import json

import pytest

from tvm_sparse.machine.costs import FROM_MEMORY, Costs

COSTS = Costs("somewhere", lookup=((16, 0.5), (32, 0.9)), rows=1.25)


def test_they_survive_json():
    assert Costs.from_json(json.loads(json.dumps(COSTS.to_json()))) == COSTS


def test_banks_that_no_register_holds_are_looked_up_in_memory():
    assert COSTS.of_lookup(32) == 0.9
    assert COSTS.of_lookup(64) == FROM_MEMORY


@pytest.mark.parametrize(
    "change", [{"lookup": [[16, "x"]]}, {"rows": float("nan")}, {"rows": 1e9}, {"tap": None}]
)
def test_what_is_no_cost_is_refused(change):
    record = json.loads(json.dumps(COSTS.to_json())) | change
    with pytest.raises((ValueError, TypeError)):
        Costs.from_json(record)


def test_what_is_missing_is_refused():
    with pytest.raises(KeyError):
        Costs.from_json({"source": "x"})
