"""docs/operators.md says what the JSON files say."""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from tests import tools
from tests.suites.__main__ import SUITES
from tests.suites.outcomes import REFUSED, RIGHT
from tests.suites.table import recorded, totals


def _tool() -> ModuleType:
    return tools.load("operators_page")


def test_operators_are_listed_by_how_many_samples_are_right():
    rows = {
        "abs": {"right": 2},
        "add": {"refused": 1, "right": 3, "reasons": ["is complex"]},
        "eig": {"refused": 2, "reasons": ["a | b"]},
        "svd": {"refused": 2, "reasons": ["a | b"]},
    }
    operators = [{"operator": name, **row} for name, row in rows.items()]
    text = _tool().page([{"suite": "Samples", "version": "torch 2", "operators": operators}])
    assert "torch 2: 5 of 10 samples are right (50%), 5 are refused." in text
    assert "### Supported (1 operators)\n\n`abs`\n" in text
    assert "| `add` | 3 | 1 | is complex |" in text
    assert "| a \\| b | `eig`, `svd` |" in text


def test_the_page_is_that_of_the_results():
    tool = _tool()
    records = [json.loads(path.read_text("utf-8")) for path in sorted(tool.RESULTS.glob("*.json"))]
    assert len(records) == len(SUITES)
    assert tool.PAGE.read_text("utf-8") == tool.page(records)


@pytest.mark.parametrize("name", SUITES)
def test_no_recorded_sample_is_wrong(name):
    assert set(totals(recorded(name))) <= {RIGHT, REFUSED}


def test_the_shares_that_are_right():
    least = dict.fromkeys(SUITES, 0.9) | {"pytorch": 0.85, "onnx": 0.6}
    for name in SUITES:
        found = totals(recorded(name))
        assert found[RIGHT] >= least[name] * found.total()
