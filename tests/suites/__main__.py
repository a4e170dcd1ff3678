"""Run a suite and keep its table: ``python -m tests.suites NAME [--jobs N] [--operators RE]``."""

from __future__ import annotations

import argparse
import importlib
import os
import re

from tests.suites.outcomes import RIGHT
from tests.suites.table import Rows, record, recorded, rows_of, totals
from tests.suites.workers import cases, results

SUITES = {
    "pytorch": "tests.suites.opinfo",
    "opened": "tests.suites.opened",
    "onnx": "tests.suites.onnx_nodes",
    "onnx_constants": "tests.suites.onnx_constants",
    "onnx_opened": "tests.suites.onnx_opened",
}
"""Name of the table, and the module whose cases fill it."""


def main() -> None:
    """Run the suite that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=SUITES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--operators", help="renew the rows of operators that match, keep others")
    options = parser.parse_args()
    os.environ.setdefault("TVM_NUM_THREADS", "1")
    suite = importlib.import_module(SUITES[options.name])
    keys = cases(SUITES[options.name])
    kept: Rows = {}
    if options.operators:
        keys = [key for key in keys if re.search(options.operators, suite.operator_of(key))]
        kept = recorded(options.name)
    found = list(results(SUITES[options.name], keys, jobs=options.jobs))
    rows = dict(sorted({**kept, **rows_of(found)}.items()))
    record(options.name, suite.TITLE, suite.VERSION, rows)
    counts = totals(rows)
    print(dict(counts), f"{counts[RIGHT] / sum(counts.values()):.1%} right")


if __name__ == "__main__":
    main()
