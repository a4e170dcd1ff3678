"""A fixed part of PyTorch's operator tests with every run, all of them as slow tests."""

from __future__ import annotations

import pytest

from tests.suites.outcomes import REFUSED, RIGHT
from tests.suites.workers import cases, results

SUITE = "tests.suites.opinfo"
EVERY = 640


def _broken(keys: list[str]) -> list[str]:
    """Return what is neither right nor refused."""
    return [
        f"{r.key}: {r.outcome}: {r.reason}"
        for r in results(SUITE, keys)
        if r.outcome not in (RIGHT, REFUSED)
    ]


@pytest.mark.timeout(1200)
def test_a_few_are_right_or_refused():
    assert _broken(cases(SUITE)[::EVERY]) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_all_are_right_or_refused():
    assert _broken(cases(SUITE)) == []
