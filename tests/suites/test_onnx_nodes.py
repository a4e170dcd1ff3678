"""A fixed part of ONNX's node tests with every run, all of them among the slow tests."""

from __future__ import annotations

import pytest

from tests.suites import onnx_constants, onnx_nodes
from tests.suites.outcomes import RIGHT, broken
from tests.suites.table import rows_of, totals
from tests.suites.workers import results

SUITES = {module.__name__: module for module in (onnx_nodes, onnx_constants)}
LEAST = {onnx_nodes.__name__: 0.6, onnx_constants.__name__: 0.9}
"""Share of the tests that are right."""


@pytest.mark.parametrize("suite", SUITES)
def test_a_few_are_right_or_refused(suite):
    assert broken(results(suite, SUITES[suite].cases()[::640])) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("suite", SUITES)
def test_all_are_right_or_refused(suite):
    keys = SUITES[suite].cases()
    found = list(results(suite, keys))
    assert broken(found) == []
    assert totals(rows_of(found))[RIGHT] / len(keys) >= LEAST[suite]
