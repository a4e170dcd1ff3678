"""A fixed part of PyTorch's operator tests with every run, all of them as slow tests."""

from __future__ import annotations

import pytest

from tests.suites.outcomes import broken
from tests.suites.workers import cases, results

SUITE = "tests.suites.opinfo"
EVERY = 640


@pytest.mark.timeout(1200)
def test_a_few_are_right_or_refused():
    assert broken(results(SUITE, cases(SUITE)[::EVERY])) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_all_are_right_or_refused():
    assert broken(results(SUITE, cases(SUITE))) == []
