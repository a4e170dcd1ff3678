"""Break-even and the picture of the kernel benchmark."""

from __future__ import annotations

import pytest

from benchmarks.pages.kernel_picture import best, break_even, break_evens, draw


def row(sparsity, pattern="block", threads=1, dense=100.0):
    # 10 us, and 120 us for a dense weight: as fast as 100 us at 75 % of the weights.
    return {
        "case": "layer",
        "pattern": pattern,
        "sparsity": sparsity,
        "threads": threads,
        "format": "block",
        "flops": 2e6,
        "ours_sparse": {"median_us": 10 + 120 * (1 - sparsity)},
        "ours_dense": {"median_us": dense},
        "libraries_dense": {"a": {"median_us": 150.0}, "b": {"median_us": 140.0}},
        "libraries_sparse": {},
        "compile_seconds": 0.5,
        "code_bytes": 2048,
        "environment": {"cpu": "CPU", "cores": 2, "threads": threads, "versions": {"tvm": "1"}},
    }


ROWS = [row(s) for s in (0.5, 0.75, 0.9)]


def test_break_even_is_where_the_line_meets_the_fastest_dense_operator():
    assert break_even(ROWS) == pytest.approx(0.25)
    assert break_even([row(s, dense=500.0) for s in (0.5, 0.75, 0.9)]) == 0
    assert break_even([row(s, dense=5.0) for s in (0.5, 0.75, 0.9)]) == 1


def test_break_evens_need_three_sparsities():
    others = [row(s, "balanced") for s in (0.5, 0.75)]
    assert set(break_evens([*ROWS, *others])) == {("layer", "block")}


def test_best_of_none():
    assert best({}) is None
    assert best(ROWS[0]["libraries_dense"]) == ("b", 140.0)


def test_the_picture_names_patterns_and_rooflines(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "picture.svg"
    draw(ROWS, "layer", path)
    text = path.read_text()
    for words in ("block, pays from 25% zeros", "roofline: multiply-adds", "best dense library"):
        assert f"<!-- {words} -->" in text
