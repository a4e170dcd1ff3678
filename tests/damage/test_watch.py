"""The watchdog tells crashes, hangs and early ends apart, and goes on behind each."""

from __future__ import annotations

import os
import signal
import sys
import time

from tests.damage.watch import bad, report, watched


def run(case: int) -> tuple[str, str]:
    if case == 2:
        os.kill(os.getpid(), signal.SIGSEGV)
    if case == 4:
        time.sleep(600)
    if case == 5:
        print("last words", file=sys.stderr)
        sys.exit(0)
    sys.stderr.write("x" * 200_000)
    return "nothing", "right" if case != 6 else "wrong"


def test_every_case_has_an_outcome():
    found = watched("tests.damage.test_watch", (), range(8), seconds=3)
    assert [outcome.case for outcome in found] == list(range(8))
    results = {outcome.case: outcome.result for outcome in bad(found)}
    assert results == {2: "ended with -11", 4: "hang", 5: "ended with 0", 6: "wrong"}
    assert found[5].what == "last words"


if __name__ == "__main__":
    report(sys.argv[1], run)
