"""Rows and reports as phrases, JSON and a table."""

from __future__ import annotations

import io
import json

from rich.console import Console

from tvm_sparse.inspection.report import Report, Row
from tvm_sparse.patterns.balanced import Balanced
from tvm_sparse.patterns.base import Evidence, Fit
from tvm_sparse.patterns.dense import Dense
from tvm_sparse.patterns.unstructured import Unstructured

EXACT = Fit(Balanced(16, 4), 0.75, Evidence("bank", 4096, 4096))
NEAR = Fit(Balanced(8, 2), 0.75, Evidence("bank", 8189, 8192, "row 17, bank 3", 0.004))
DENSE = Fit(Dense(), 0.0, Evidence("row", 64, 64))


def row(fit: Fit, **options) -> Row:
    return Row("a.b", "a.b.weight", "linear", (64, 1024), fit.sparsity, fit, **options)


def test_an_exact_fit():
    assert row(EXACT).pattern == "balanced 4 of 16"
    assert row(EXACT).evidence == "all 4,096 banks"


def test_a_near_fit_says_where_and_what_it_costs():
    text = row(NEAR).evidence
    for part in ("3 of 8,192 banks", "first at row 17, bank 3", "padding costs 0.4 %"):
        assert part in text
    assert row(NEAR).pattern == "nearly balanced 2 of 8"
    assert "balanced" not in text


def test_nothing_is_claimed_of_a_dense_weight():
    assert row(DENSE).evidence == ""
    unstructured = Fit(Unstructured(), 0.5, Evidence("row", 64, 64, chance=1.0))
    assert row(unstructured).evidence == ""


def test_a_likely_coincidence_and_the_order_are_told():
    fit = Fit(Balanced(4, 2), 0.5, Evidence("bank", 8, 8, chance=0.02), order="hwi")
    assert row(fit).evidence == "all 8 banks; along input channels; chance 2e-02"


def test_the_table_has_everything_a_reader_needs():
    rows = (
        row(EXACT, near_misses=(NEAR, NEAR, NEAR), storage="masked", shared_with=("c", "d")),
        row(DENSE),
    )
    text = str(Report("net", rows))
    lines = text.splitlines()
    assert lines[0].strip() == "net: 2 layers, 37.5 % zeros"
    for part in ("linear (masked)", "64x1024", "75.0 %", "shared with c, d", "all 4,096 banks"):
        assert part in text
    assert text.count("nearly balanced 2 of 8") == 2
    stream = io.StringIO()
    Console(file=stream, width=160, color_system=None).print(Report("net", rows))
    assert stream.getvalue().rstrip("\n") == text


def test_an_empty_report():
    assert Report("net").sparsity == 0.0
    assert "0 layers" in str(Report("net"))


def test_json():
    plain = row(EXACT, near_misses=(NEAR,), shared_with=("c",)).to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["fit"]["kind"] == "balanced"
    assert plain["fit"]["parameters"] == {"bank": 16, "keep": 4}
    assert plain["fit"]["evidence"]["exact"] is True
    assert plain["near_misses"][0]["evidence"]["first_violation"] == "row 17, bank 3"
