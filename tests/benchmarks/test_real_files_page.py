"""Every file has a line that says what became of it."""

from __future__ import annotations

from benchmarks.pages import real_files_page

FOUND = {
    "environment": {"versions": {"onnxruntime": "1.0"}},
    "rows": [
        {
            **{"file": "a/x.onnx", "package": "a", "state": "right", "seconds": 2.5},
            **{"bounds": {"n": [1, None], "h": [2, 9]}, "error": 1e-6},
        },
        {"file": "a/y.onnx", "package": "a", "state": "refused", "why": "a | b; expected c"},
    ],
}


def test_rows_are_lines():
    text = real_files_page.page(FOUND)
    assert "**1 of 2 trained files of 1 packages compile as published and are right.**" in text
    assert "| a/x.onnx | right | 2.5 | n: 1 and more, h: 2 to 9 | 1.0e-06 |" in text
    assert "| a/y.onnx | refused |  | - | a \\| b |" in text


def test_a_rounded_file_says_how_far_it_is_from_exact():
    distances = {"library": 1e-4, "onnxruntime, plain": 2e-4}
    row = {"file": "q.onnx", "package": "q", "state": "rounded", "error": 5e-3}
    text = real_files_page.page({**FOUND, "rows": [{**row, "distances": distances}]})
    assert "**0 of 1" in text
    assert "| 5.0e-03 (to exact: library 1.0e-04, onnxruntime, plain 2.0e-04) |" in text


def test_nothing_is_written_without_results(tmp_path, monkeypatch):
    monkeypatch.setattr(real_files_page, "load", lambda name: {})
    real_files_page.write(tmp_path)
    assert not list(tmp_path.iterdir())
