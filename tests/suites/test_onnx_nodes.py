"""A fixed part of ONNX's node tests with every run, all of them among the slow tests."""

from __future__ import annotations

import pytest

from tests.suites import onnx_constants, onnx_nodes
from tests.suites.outcomes import REFUSED, RIGHT
from tests.suites.table import rows_of, totals
from tests.suites.workers import results

SUITES = {module.__name__: module for module in (onnx_nodes, onnx_constants)}
LEAST = {onnx_nodes.__name__: 0.6, onnx_constants.__name__: 0.9}
"""Share of the tests that are right."""


def _broken(suite: str, keys: list[str]) -> tuple[list[str], float]:
    """Return what is neither right nor refused, and the share that is right."""
    found = list(results(suite, keys))
    broken = [
        f"{r.key}: {r.outcome}: {r.reason}" for r in found if r.outcome not in (RIGHT, REFUSED)
    ]
    return broken, totals(rows_of(found))[RIGHT] / len(keys)


@pytest.mark.parametrize("suite", SUITES)
def test_a_few_are_right_or_refused(suite):
    assert _broken(suite, SUITES[suite].cases()[::640])[0] == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("suite", SUITES)
def test_all_are_right_or_refused(suite):
    broken, share = _broken(suite, SUITES[suite].cases())
    assert broken == []
    assert share >= LEAST[suite]
