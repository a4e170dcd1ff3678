"""A suite whose cases crash and hang, to test the workers with."""

from __future__ import annotations

import os
import time

from tests.suites.outcomes import RIGHT, Result


def operator_of(key: str) -> str:
    return f"operator {key}"


def check(key: str) -> Result | None:
    if key == "crash":
        os._exit(7)
    if key == "hang":
        time.sleep(1000)
    return None if key == "absent" else Result(key, operator_of(key), RIGHT)
