"""The page of the kernel benchmark: figures come from the results."""

from __future__ import annotations

from benchmarks.pages.kernel_pages import page, rows_page
from tests.benchmarks.test_kernel_picture import row


def test_all_rows():
    rows = [row(s, threads=t) for t in (1, 2) for s in (0.5, 0.75, 0.9)]
    scaling = {"case": "layer", "pattern": "block", "sparsity": 0.5, "format": "block"}
    scaling |= {"median_us": {"1": 70.0, "2": 35.0}, "ratio": 2.0}
    text = rows_page(rows, [row(0.75)], [scaling])
    assert "| layer | block | 0.5 | block | 70.0 | 100.0 | 140.0 (b) |  | **2.00x** |" in text
    assert "## 2 threads" in text
    assert "| layer | block | 0.5 | block | 70.0 | 35.0 | 2.00x |" in text
    assert "| layer | block | 25% |" in text
    assert "| layer | block | 0.75 | block | 12 | 20 | 62% |" in text
    assert "* CPU, 2 cores, 1 threads, tvm 1" in text


def test_the_verdict_tells_what_patterns_gain():
    rows = [row(s, threads=t) for t in (1, 2) for s in (0.5, 0.75, 0.9)]
    text = page(rows)
    assert "block 3.5 times" in text
    assert "| block | 0.5 | 1 | **2.00x** (2.00 to 2.00) | **2.00x** (2.00 to 2.00) |" in text
    assert "* CPU, 2 cores, 1 threads, tvm 1" in text
