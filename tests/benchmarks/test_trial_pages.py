"""The page of the trial counts every network, and names those that are refused, fail or crawl."""

from __future__ import annotations

from benchmarks.pages import trial_pages

HEAD = {"source": "timm", "mode": "pruned"}
ROWS = [
    {**HEAD, "name": "a", "speed": 4.0, "slow": [], "error_relative": 1e-7},
    {**HEAD, "name": "b", "speed": 0.5, "slow": ["'fft' takes 40 %"], "error_relative": 1e-7},
    {**HEAD, "name": "c", "error": "UnsupportedError: aten.fft"},
    {**HEAD, "name": "d", "error": "SIGSEGV"},
    {**HEAD, "mode": "int8", "name": "a", "error": "wrong by 3.0e+00", "slow": []},
]


def test_networks_are_counted_by_source_and_mode():
    text = trial_pages.page(ROWS)
    assert "| timm | pruned | 4 | 2 | 1 | 1 | 2.25 | 0.50 |" in text
    assert "| timm | int8 | 1 | 0 | 0 | 1 |  |  |" in text


def test_what_is_refused_fails_or_crawls_is_named():
    text = trial_pages.page(ROWS)
    refused, failed, slow = (text.index(f"## {title}") for title in ("Refused", "Failed", "Slow"))
    assert refused < text.index("* c (pruned): UnsupportedError: aten.fft") < failed
    assert failed < text.index("* d (pruned): SIGSEGV") < text.index("* a (int8): wrong") < slow
    assert text[slow:].strip().endswith("* b (pruned): 0.50 of eager's speed; 'fft' takes 40 %")


def test_the_page_in_the_repository_is_that_of_the_results(tmp_path):
    trial_pages.write(tmp_path)
    from benchmarks.pages.__main__ import PAGES

    written = (tmp_path / "trial.md").read_text(encoding="utf-8")
    assert (PAGES / "trial.md").read_text(encoding="utf-8") == written, "run benchmarks.pages"
