import subprocess
import sys
from pathlib import Path

from benchmarks.gpu.executed import Outcomes, row
from benchmarks.gpu.operators import OPERATORS

ROOT = Path(__file__).resolve().parents[3]


def test_cases_of_an_operator_are_counted():
    test = OPERATORS["dense"].executed
    found = {
        f"{test}[dense-a]": "passed",
        f"{test}[dense-b]": "passed",
        f"{test}[joint-a]": "failed",
    }
    proved = row(OPERATORS["dense"], found)
    assert (proved["cases"], proved["equal"], proved["max_error"]) == (2, 2, 0.0)
    other = row(OPERATORS["joint"], found)
    assert (other["cases"], other["equal"], other["max_error"]) == (1, 0, None)
    assert row(OPERATORS["dense depthwise"], found)["cases"] == 0


def test_skipped_tests_are_no_proof():
    class Report:
        nodeid, when, outcome = "tests/cuda/test_tile.py::test_a[b]", "setup", "skipped"

    outcomes = Outcomes()
    outcomes.pytest_runtest_logreport(Report)
    assert outcomes.found == {"test_tile.py::test_a[b]": "skipped"}


def test_every_operator_has_cases():
    """Names of cases begin as the operators say."""
    tests = sorted({f"tests/cuda/{operator.executed}" for operator in OPERATORS.values()})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    text = subprocess.run([*command, *tests], cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line.rpartition("/")[2] for line in text.stdout.splitlines() if "::" in line]
    for operator in OPERATORS.values():
        assert row(operator, dict.fromkeys(names, "passed"))["equal"] > 0, operator.layer
