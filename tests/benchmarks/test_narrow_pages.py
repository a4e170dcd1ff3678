"""The page of bytes and bfloat16: a line for each pattern, ratios from the results."""

from __future__ import annotations

from benchmarks.pages.narrow_pages import page
from tests.benchmarks.test_kernel_picture import row


def test_a_line_for_each_pattern():
    rows = [row(s) | {"numerics": "int8"} for s in (0.75, 0.9375)]
    rows += [row(0.78, "taps", threads=2) | {"numerics": "int8"}]
    lines = page(rows).splitlines()
    assert lines[-2] == (
        "| layer | int8 | 1 | block | block | 1.40 | 3.50 |  | 8.00 | b, 140.0 us |"
    )
    assert lines[-1] == (
        "| layer | int8 | 2 | taps, 3.85 at 78 % | block | 1.40 |  |  |  | b, 140.0 us |"
    )
