"""Crashes and hangs are results, and the cases after them run."""

from __future__ import annotations

from tests.suites.outcomes import CRASHED, RIGHT, Result
from tests.suites.workers import results


def test_crashes_and_hangs_are_results():
    keys = ["first", "crash", "absent", "hang", "last"]
    assert list(results("tests.suites.fragile", keys, seconds=2)) == [
        Result("first", "operator first", RIGHT),
        Result("crash", "operator crash", CRASHED, "exit status 7"),
        Result("hang", "operator hang", CRASHED, "no result after 2 seconds"),
        Result("last", "operator last", RIGHT),
    ]
