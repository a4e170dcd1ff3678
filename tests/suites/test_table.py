"""Results become one row an operator."""

from __future__ import annotations

from tests.suites.outcomes import REFUSED, RIGHT, Result
from tests.suites.table import rows_of, totals


def test_rows_count_outcomes_and_keep_each_reason_once():
    results = [
        Result("b 0", "b", REFUSED, "odd"),
        Result("b 1", "b", RIGHT),
        Result("b 2", "b", REFUSED, "odd"),
        Result("a 0", "a", RIGHT),
    ]
    rows = rows_of(results)
    assert list(rows) == ["a", "b"]
    assert rows["a"] == {RIGHT: 1}
    assert rows["b"] == {REFUSED: 2, RIGHT: 1, "reasons": ["odd"]}
    assert totals(rows) == {RIGHT: 2, REFUSED: 2}
