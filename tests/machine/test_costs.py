"""Costs as records."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tvm_sparse.machine.costs import FROM_MEMORY, Costs

COSTS = Costs("somewhere", lookup=((16, 0.5), (32, 0.9)), rows=1.25)


def test_they_survive_json():
    assert Costs.from_json(json.loads(json.dumps(COSTS.to_json()))) == COSTS


def test_banks_that_no_register_holds_are_looked_up_in_memory():
    assert COSTS.of_lookup(32) == 0.9
    assert COSTS.of_lookup(64) == FROM_MEMORY


def test_narrow_numbers_have_costs_of_their_own():
    costs = replace(COSTS, bytes=((16, 0.75),))
    assert [costs.of_lookup(16, bits) for bits in (32, 16, 8)] == [0.5, 0.5, 0.75]
    assert costs.of_lookup(32, 8) == 0.9


def test_records_of_the_first_release_have_no_narrow_numbers():
    record = {k: v for k, v in COSTS.to_json().items() if k not in ("halves", "bytes")}
    assert Costs.from_json(json.loads(json.dumps(record))) == COSTS


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
