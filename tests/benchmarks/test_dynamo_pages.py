from pathlib import Path

from benchmarks.harness import common
from benchmarks.pages import dynamo_pages

PAGES = Path(__file__).resolve().parents[2] / "docs" / "performance"


def test_ratios_are_other_programs_over_ours():
    made = {"cpu": "EPYC", "threads": 1, "date": "2026-11-22", "versions": {"torch": "2.13.0"}}
    us = {"eager": 4000.0, "inductor": 3000.0, "tvm_sparse": 2000.0}
    row = {"network": "net", "pruned": True, "us": us, "first_call_s": 2.04, "error": 2.1e-6}
    text = dynamo_pages.page({"environment": made, "rows": [row]})
    assert text.splitlines()[-1] == "| net | pruned | 4.0 | 2.00x | 1.50x | 2.0 | 2e-06 |"
    assert "1 thread, EPYC, torch 2.13.0" in text


def test_the_page_is_made_from_the_results(tmp_path):
    assert all(row["error"] < 1e-3 for row in common.load("dynamo")["rows"])
    dynamo_pages.write(tmp_path)
    written = (tmp_path / "torch_compile.md").read_text(encoding="utf-8")
    assert (PAGES / "torch_compile.md").read_text(encoding="utf-8") == written, (
        "run benchmarks.pages"
    )
