"""No damaged artifact crashes a process or loads without a word."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.artifact.programs import echo_artifact, linear_artifact
from tests.damage.watch import bad, watched

__all__ = ["echo_artifact", "linear_artifact"]
ALL = range(2000)


def outcomes(sound, other, verify, cases):
    arguments = (sound, other, verify)
    return watched("tests.damage.artifacts", arguments, cases, seconds=60)


def assert_refused(found, cases):
    assert [outcome.case for outcome in found] == list(cases)
    assert bad(found) == []
    kinds = Counter(outcome.what.split()[0] for outcome in found)
    right = Counter(outcome.what for outcome in found if outcome.result == "right")
    assert len(kinds) == 16
    assert sum(right.values()) < 0.1 * len(found), right


def test_a_tenth_of_all_damages(linear_artifact, echo_artifact):
    cases = ALL[::10]
    assert_refused(outcomes(linear_artifact, echo_artifact, True, cases), cases)


def test_without_hashes_of_the_weights_nothing_crashes(linear_artifact, echo_artifact):
    found = outcomes(linear_artifact, echo_artifact, False, ALL[1::20])
    assert {outcome.result for outcome in bad(found)} <= {"loaded silently"}
    assert {outcome.what for outcome in bad(found)} <= {"flip .so", "header .so", "hole .so"}


@pytest.mark.slow
def test_all_damages(linear_artifact, echo_artifact):
    assert_refused(outcomes(linear_artifact, echo_artifact, True, ALL), ALL)
