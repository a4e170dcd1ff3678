"""Execute every GPU operator on a CPU, by PoCL: ``python -m benchmarks.gpu.executed``.

Runs the tests that :mod:`benchmarks.gpu.operators` names, which compare small integers exactly with
the naive reference, and writes what passed to ``results/gpu_pocl.json``.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common import environment, save
from benchmarks.gpu.operators import OPERATORS, Operator

TESTS = Path(__file__).resolve().parents[2] / "tests" / "cuda"


class Outcomes:
    """A plugin of pytest that keeps what became of each case, by its name."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of the test itself, or that of a setup that failed or skipped it."""
        if report.when == "call" or report.outcome != "passed":
            self.found[report.nodeid.rpartition("/")[2]] = report.outcome


def main() -> int:
    """Run the tests and write the results; return pytest's exit status."""
    outcomes = Outcomes()
    tests = sorted({str(TESTS / operator.executed) for operator in OPERATORS.values()})
    status = int(pytest.main(["-q", "-p", "no:cacheprovider", *tests], plugins=[outcomes]))
    rows = [row(operator, outcomes.found) for operator in OPERATORS.values()]
    save("gpu_pocl", {"environment": {**environment(1), **_device()}, "rows": rows})
    return status


def row(operator: Operator, found: dict[str, str]) -> dict[str, Any]:
    """Return how many cases of ``operator`` equal the reference, of those that were run."""
    start = f"{operator.executed}[{operator.cases}"
    own = {case: outcome for case, outcome in found.items() if case.startswith(start)}
    passed = [case for case, outcome in own.items() if outcome == "passed"]
    return {
        "layer": operator.layer,
        "test": operator.executed,
        "cases": len(own),
        "equal": len(passed),
        # Cases that differ have no error to tell: tests compare exactly, and stop there.
        "max_error": 0.0 if own and len(passed) == len(own) else None,
    }


def _device() -> dict[str, str]:
    """Return what stands in for a GPU."""
    from tests.cuda.pocl import DEVICE

    if DEVICE is None:
        return {"device": "none"}
    return {
        "device": str(DEVICE.name),
        "opencl": str(DEVICE.platform.version),
        "pyopencl": importlib.metadata.version("pyopencl"),
    }


if __name__ == "__main__":
    sys.exit(main())
