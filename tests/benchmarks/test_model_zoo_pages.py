from benchmarks.cases.zoo_models import MODELS
from benchmarks.harness import common
from benchmarks.pages import model_zoo_pages
from benchmarks.pages.__main__ import PAGES

MADE = {"cpu": "EPYC", "threads": 1, "date": "2026-11-22", "versions": {"torch": "2.13.0"}}
ROW = {
    "model": "net",
    "weights": "pruned",
    "us": {"eager": 4000.0, "inductor": 3000.0, "tvm_sparse": 2000.0},
    "ours": 0.9,
    "general": 0.08,
    "unscheduled": 0.02,
    "largest": "take",
    "largest_share": 0.05,
    "error": 2.1e-6,
    "error_library": 1e-6,
    "compile_s": 3.2,
    "parts": 1,
    "left_to_pytorch": [],
    "refused": [],
    "environment": MADE,
}


def test_ratios_and_shares():
    text = model_zoo_pages.page([ROW])
    line = "| net | pruned | 4.0 | 2.00x | 1.50x | 90 % | 8 % | 2 % | 5 % `take` | 2e-06 | 3 s |"
    assert line in text.splitlines()
    assert "PyTorch runs none" in text
    assert "net (aten.rand)" in model_zoo_pages.page([{**ROW, "left_to_pytorch": ["aten.rand"]}])


def test_the_page_is_made_from_the_results(tmp_path):
    rows = common.load("model_zoo")["rows"]
    assert {row["model"] for row in rows} == {*MODELS}
    assert all(row["error"] < 2e-4 and row["error_library"] < 2e-4 for row in rows)
    model_zoo_pages.write(tmp_path)
    written = (tmp_path / "models.md").read_text(encoding="utf-8")
    assert (PAGES / "models.md").read_text(encoding="utf-8") == written, "run benchmarks.pages"
