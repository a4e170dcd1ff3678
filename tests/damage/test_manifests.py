"""An edited manifest is refused at load, with one of our errors, or changes nothing."""

from __future__ import annotations

import pytest

from tests.artifact.programs import linear_artifact
from tests.damage.manifests import documents
from tests.damage.watch import bad, watched

__all__ = ["linear_artifact"]


def assert_refused(artifact, step):
    cases = range(0, len(documents(artifact)), step)
    found = watched("tests.damage.manifests", (artifact,), cases, seconds=60)
    assert [outcome.case for outcome in found] == list(cases)
    assert bad(found) == []
    right = {outcome.what.split(",")[0] for outcome in found if outcome.result == "right"}
    assert right
    assert right <= {"('threads'", "('decisions'"}, "only these may be edited"


def test_a_tenth_of_all_edits(linear_artifact):
    assert len(documents(linear_artifact)) > 2000
    assert_refused(linear_artifact, 10)


@pytest.mark.slow
def test_all_edits(linear_artifact):
    assert_refused(linear_artifact, 1)
